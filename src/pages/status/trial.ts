/**
 * Two tries by a person: the relay, step by step, and a test mail, which is followed to its end.
 */
import { type DaemonState, whyMailWaits } from '../../base/state-lines.js';
import type { TrialStep, TriedRelay } from '../../base/views.js';
import { byId, html } from '../dom.js';
import { type Live, wordsOf } from '../live.js';
import { clockTime, exactTime } from '../words.js';

const MESSAGES = '/api/internal/messages';
/** About a test mail the daemon answers when it is final, or after this long. */
const WAIT_S = 20;
const ANSWER_MS = 40_000;
/** A daemon ends the trial of its relays after a minute. */
const TRIAL_MS = 75_000;

/** The part of the page that tries the relay. */
export function createRelayTrial({ call, refresh }: Live): void {
  const start = byId<HTMLButtonElement>('try-relay');
  const place = byId('relay-steps');
  start.addEventListener('click', async () => {
    start.disabled = true;
    place.replaceChildren(html('p', { class: 'soft' }, 'Connecting …'));
    try {
      const { body } = await call('POST', '/api/internal/relay/trial', { withinMs: TRIAL_MS });
      place.replaceChildren(...(body.relays as TriedRelay[]).flatMap(told));
      if (body.relays.length === 0)
        place.replaceChildren(html('p', { class: 'uneasy' }, 'No relay is configured.'));
      refresh();
    } catch (error) {
      place.replaceChildren(html('p', { class: 'bad' }, wordsOf(error)));
    }
    start.disabled = false;
    start.focus();
  });
}

function told({ relay, steps, fault }: TriedRelay): HTMLElement[] {
  const line = ({ step, words }: TrialStep, mood = '') => [
    html('dt', {}, step),
    html('dd', { class: mood }, words),
  ];
  const end =
    fault === null ? line({ step: 'verdict', words: 'good: mails can go' }, 'good') : line(fault, 'bad');
  const hint = fault?.hint ? line({ step: 'what to do', words: fault.hint }) : [];
  return [
    html('h3', {}, relay),
    html('dl', { class: 'steps' }, ...steps.flatMap((one) => line(one)), ...end, ...hint),
  ];
}

/** The part of the page that sends a test mail. */
export function createTestMail({ call, refresh }: Live): void {
  const form = byId<HTMLFormElement>('trial');
  const steps = byId('trial-steps');
  const step = (words: string, mood = '') =>
    steps.append(html('li', { class: mood }, `${exactTime(new Date().toISOString())}: ${words}`));
  /** Each test has a number: a new one ends the report on the one before. */
  let latest = 0;

  async function follow(to: string): Promise<void> {
    const test = ++latest;
    steps.replaceChildren();
    const body = [
      {
        type: 1,
        destination: to,
        subject: 'Test from Fieldpost',
        plain: 'This is a test mail. Somebody has asked for it on the status page of this device.',
      },
    ];
    const accepted = (await call('POST', MESSAGES, { body })).body[0];
    step(`accepted as ${accepted.id}`);
    refresh();
    for (let told = '', waitS = 1; test === latest; waitS = WAIT_S) {
      const { body: message } = await call('GET', `${MESSAGES}/${accepted.id}?wait=${waitS}`, {
        withinMs: ANSWER_MS,
      });
      const why = message.final ? '' : await whyWaits();
      const reply = message.lastReply ? `: ${message.lastReply}` : '';
      const words = `${message.status}${reply}${why && `; waits: ${why}`}`;
      if (words !== told) step(words, message.status === 'sent' ? 'good' : 'uneasy');
      told = words;
      refresh();
      if (message.final) return;
    }
  }

  async function whyWaits(): Promise<string> {
    const state: DaemonState = (await call('GET', '/api/internal/state')).body;
    return whyMailWaits(state, (iso) => clockTime(iso, Date.now()));
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    try {
      await follow(String(new FormData(form).get('to')));
    } catch (error) {
      step(wordsOf(error), 'bad');
    }
  });
}
