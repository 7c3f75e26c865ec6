/**
 * The test mail: sends one, and follows it to its end.
 */
import { byId, html } from '../dom.js';
import { type Live, wordsOf } from '../live.js';
import { exactTime } from '../times.js';

const PATH = '/api/internal/messages';
/** The daemon answers at the end of the message, or after this long. */
const WAIT_S = 20;
const ANSWER_MS = 40_000;

/** The part of the page that sends a test mail. */
export function createTrial({ call, refresh }: Live): void {
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
    const accepted = (await call('POST', PATH, { body })).body[0];
    step(`accepted as ${accepted.id}`);
    refresh();
    for (let told = ''; test === latest; ) {
      const { body: message } = await call('GET', `${PATH}/${accepted.id}?wait=${WAIT_S}`, {
        withinMs: ANSWER_MS,
      });
      const words = `${message.status}${message.lastReply ? `: ${message.lastReply}` : ''}`;
      if (words !== told) step(words, message.status === 'sent' ? 'good' : 'uneasy');
      told = words;
      refresh();
      if (message.final) return;
    }
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
