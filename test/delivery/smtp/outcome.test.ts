import t from 'tap';
import { outcomeOf, reasonOf } from '../../../src/mail/delivery/smtp/failure-classification.js';
import type { Ending, Phase, Trouble } from '../../../src/mail/delivery/smtp/protocol.js';

const PHASES: Phase[] = [
  ...(['resolve', 'connect', 'tls', 'greeting', 'ehlo', 'starttls', 'auth'] as const),
  ...(['mail', 'rcpt', 'data', 'content', 'dot'] as const),
];
const KINDS: Trouble['kind'][] = [
  ...(['lost', 'deadline', 'garbage', 'refused', 'unreachable', 'dns', 'certificate'] as const),
  ...(['certificate-not-yet-valid', 'tls', 'no-starttls', 'no-auth', 'no-smtputf8'] as const),
  ...(['too-large', 'source'] as const),
];
const DETAILS = [
  ...([null, '0.0', '1.1', '1.8', '2.2', '3.0', '3.1', '3.4', '5.3', '6.7', '7.0', '7.1'] as const),
  ...(['7.25', '30.1'] as const),
];

interface Case {
  phase: Phase;
  code: number | null;
  enhanced: string | null;
  trouble: Trouble['kind'] | null;
  utf8: boolean;
}
type Row = [name: string, applies: (c: Case) => boolean, becomes: string];

const early = ({ phase }: Case) => PHASES.indexOf(phase) < PHASES.indexOf('mail');
const during =
  (...phases: Phase[]) =>
  ({ phase }: Case) =>
    phases.includes(phase);
const from = (low: number, high: number) => (c: Case) => c.code !== null && c.code >= low && c.code <= high;
const temporary = from(400, 499);
const permanent = from(500, 599);
const refused = from(400, 599);
const mail = during('mail');
const rcpt = during('rcpt');
const late = during('data', 'content', 'dot');
const closing = (c: Case) => c.code === 421;
const detail = (c: Case, ...details: string[]) => details.includes((c.enhanced ?? '').slice(2));
const noSuchScript = (c: Case) => c.utf8 && (c.code === 553 || c.enhanced === '5.6.7');
const system = (c: Case) => /^.\.3\./.test(c.enhanced ?? '') && !content(c);
const own = (c: Case) => c.trouble === 'too-large' || c.trouble === 'no-smtputf8';
const unanswered = (c: Case) => c.trouble !== null && !own(c) && c.trouble !== 'source';
const ours = (c: Case) => c.trouble === 'no-starttls' || c.trouble === 'no-auth';

/** A refusal after EHLO that is no 421 and not about a script. */
const refusal = (c: Case) => !early(c) && refused(c) && !closing(c) && !(mail(c) && noSuchScript(c));
// What the codes alone say. The words here say nothing.
const content = (c: Case) => detail(c, '3.4') || (detail(c, '6.7') && !mail(c));
const full = (c: Case) => detail(c, '2.2');
const client = (c: Case) => detail(c, '7.25');
const sender = (c: Case) => detail(c, '1.8');
const noUser = (c: Case) => rcpt(c) && detail(c, '1.1');
const isTold = (c: Case) => content(c) || full(c) || client(c) || sender(c) || noUser(c);
const command = (c: Case) =>
  (mail(c) || rcpt(c)) && !isTold(c) && !system(c) && [502, 503, 530, 535, 538].includes(c.code ?? 0);
const open = (c: Case) => refusal(c) && !isTold(c) && !command(c);

// The rows of delivery.md's tables, said once more without looking at the code, and what the page leaves open.
const ROWS: Row[] = [
  ['before MAIL, any reply', (c) => early(c) && c.code !== null, 'deferred peer'],
  ['before MAIL, no reply', (c) => early(c) && unanswered(c), 'deferred peer'],
  ['421', (c) => !early(c) && closing(c), 'deferred peer'],
  ['MAIL non-ASCII', (c) => mail(c) && refused(c) && noSuchScript(c), 'failed message'],
  ['of the content', (c) => refusal(c) && content(c) && permanent(c), 'failed message'],
  ['of the content, for now', (c) => refusal(c) && content(c) && temporary(c), 'deferred message'],
  ['mailbox full', (c) => refusal(c) && full(c) && !mail(c), 'deferred message'],
  ['our mailbox full', (c) => refusal(c) && full(c) && mail(c), 'deferred envelope'],
  ['no such recipient', (c) => refusal(c) && noUser(c) && permanent(c), 'failed message'],
  ['no such recipient, for now', (c) => refusal(c) && noUser(c) && temporary(c), 'deferred message'],
  ['of this device', (c) => refusal(c) && client(c), 'deferred device'],
  ['of its sender', (c) => refusal(c) && sender(c), 'deferred envelope'],
  ['encryption', (c) => refusal(c) && command(c) && c.code === 538, 'deferred device'],
  ['login or protocol', (c) => refusal(c) && command(c) && c.code !== 538, 'deferred envelope'],
  ['MAIL 4xx', (c) => open(c) && mail(c) && temporary(c), 'deferred peer here'],
  ['MAIL, system', (c) => open(c) && mail(c) && permanent(c) && system(c), 'deferred peer here'],
  ['MAIL 5xx', (c) => open(c) && mail(c) && permanent(c) && !system(c), 'deferred envelope'],
  ['RCPT 4xx', (c) => open(c) && rcpt(c) && temporary(c), 'deferred message'],
  ['RCPT full', (c) => open(c) && rcpt(c) && c.code === 552, 'deferred message'],
  ['RCPT 5xx', (c) => open(c) && rcpt(c) && permanent(c) && c.code !== 552, 'deferred unclear'],
  ['content, system', (c) => open(c) && late(c) && (system(c) || c.code === 452), 'deferred peer here'],
  [
    'content 4xx',
    (c) => open(c) && late(c) && temporary(c) && !system(c) && c.code !== 452,
    'deferred message',
  ],
  ['content 5xx', (c) => open(c) && late(c) && permanent(c) && !system(c), 'deferred unclear'],
  ['taken', (c) => during('dot')(c) && from(200, 299)(c), 'sent null'],
  [
    'success out of place',
    (c) => !early(c) && from(200, 399)(c) && !(c.phase === 'dot' && from(200, 299)(c)),
    'deferred either',
  ],
  ['will never fit', own, 'failed message'],
  ['cannot be read', (c) => c.trouble === 'source', 'deferred message'],
  ['not what we require', (c) => !early(c) && ours(c), 'deferred peer'],
  ['lost after MAIL', (c) => !early(c) && unanswered(c) && !ours(c), 'deferred either'],
];

function* everyCase(): Generator<[Case, Ending]> {
  for (const phase of PHASES) {
    for (const utf8 of [false, true]) {
      for (const kind of KINDS) {
        const ending = { phase, trouble: { kind, words: `words of ${kind}` } };
        yield [{ phase, code: null, enhanced: null, trouble: kind, utf8 }, ending];
      }
      for (let code = 200; code <= 599; code++) {
        for (const detail of DETAILS) {
          // parseReply gives no enhanced code that disagrees with the code's class.
          const enhanced =
            detail === null || (code >= 300 && code < 400) ? null : `${String(code)[0]}.${detail}`;
          const ending = { phase, reply: { code, enhanced, text: `${code} words` } };
          yield [{ phase, code, enhanced, trouble: null, utf8 }, ending];
        }
      }
    }
  }
}

t.test('every phase with every reply and every fault falls in exactly one row', async (t) => {
  const wrong: unknown[] = [];
  const used = new Set<string>();
  for (const [one, ending] of everyCase()) {
    const rows = ROWS.filter(([, applies]) => applies(one));
    const outcome = outcomeOf(ending, one.utf8);
    if (rows.length !== 1 || `${outcome.kind} ${outcome.suspect}` !== rows[0]?.[2]) {
      wrong.push({ ...one, rows: rows.map(([name]) => name), outcome });
    }
    for (const [name] of rows) used.add(name);
  }
  t.same(wrong.slice(0, 5), []);
  t.equal(used.size, ROWS.length, 'no row is idle');
});

t.test('replies of real relays', async (t) => {
  const after = (phase: Phase, text: string) => {
    const [, code, enhanced = null] = /^(\d+) (?:(\d\.\d+\.\d+) )?/.exec(text) ?? [];
    const { kind, suspect } = outcomeOf({ phase, reply: { code: Number(code), enhanced, text } }, false);
    return `${kind} ${suspect}`;
  };
  t.equal(after('greeting', '554 5.7.1 Your address is listed'), 'deferred peer');
  t.equal(after('auth', '535 5.7.8 Error: authentication failed'), 'deferred peer');
  t.equal(after('mail', '553 5.7.1 Sender address rejected: not owned by user'), 'deferred envelope');
  t.equal(after('mail', '450 4.1.8 <a@b>: Sender address rejected: Domain not found'), 'deferred envelope');
  t.equal(after('mail', '451 4.3.0 Local error'), 'deferred peer here');
  t.equal(after('mail', '552 5.3.4 Message size exceeds fixed limit'), 'failed message');
  t.equal(after('mail', '552 Message size exceeds maximum permitted'), 'failed message');
  t.equal(after('mail', '550 5.4.5 Daily user sending limit exceeded'), 'deferred device');
  t.equal(after('rcpt', '450 4.2.0 Recipient address rejected: Greylisted'), 'deferred message');
  t.equal(after('rcpt', '454 4.7.1 Relay access denied'), 'deferred envelope');
  t.equal(after('rcpt', '554 5.7.1 Relay access denied'), 'deferred envelope');
  t.equal(
    after('rcpt', '504 5.5.2 <vm>: Helo command rejected: need fully-qualified hostname'),
    'deferred device',
  );
  t.equal(
    after('rcpt', '504 5.5.2 <a@vm>: Sender address rejected: need fully-qualified address'),
    'deferred envelope',
  );
  t.equal(
    after('rcpt', '504 5.5.2 <j@lan>: Recipient address rejected: need fully-qualified address'),
    'deferred unclear',
  );
  t.equal(after('rcpt', '550 Sender verify failed'), 'deferred envelope');
  t.equal(after('rcpt', '550 5.1.1 User unknown in virtual mailbox table'), 'failed message');
  t.equal(after('rcpt', '552 5.2.2 The email account is over quota'), 'deferred message');
  t.equal(after('rcpt', '554 5.7.1 Recipient address rejected: Quota exceeded'), 'deferred envelope');
  t.equal(after('rcpt', '550 5.4.6 Unusual sending activity detected'), 'deferred device');
  t.equal(after('data', '452 4.3.1 Insufficient system storage'), 'deferred peer here');
  t.equal(
    after('dot', '550 5.7.60 SMTP; Client does not have permissions to send as this sender'),
    'deferred envelope',
  );
  t.equal(after('dot', '552 5.7.0 This message was blocked'), 'deferred unclear');
  t.equal(after('dot', '554 5.7.1 Spam'), 'deferred unclear');
  t.equal(after('dot', '552 5.3.4 Message size exceeds fixed limit'), 'failed message');
  t.equal(after('dot', '554 5.6.0 Mail message is malformed'), 'failed message');
  t.equal(after('dot', '451 4.7.1 Try again later'), 'deferred message');
  t.equal(after('dot', '421 4.7.0 Too many errors'), 'deferred peer');
  t.equal(after('dot', '250 2.0.0 Ok: queued as 4F1C'), 'sent null');
});

t.test('the reply has the words of the relay, or ours, and says that a mail may arrive twice', async (t) => {
  const lost = (phase: Phase) =>
    outcomeOf({ phase, trouble: { kind: 'lost', words: 'it hung up' } }, false).reply;
  t.equal(
    outcomeOf({ phase: 'dot', reply: { code: 250, enhanced: null, text: '250 ok' } }, false).reply,
    '250 ok',
  );
  t.equal(lost('content'), 'it hung up');
  t.match(lost('dot'), /^it hung up .*may arrive twice/);
  t.match(
    outcomeOf({ phase: 'dot', trouble: { kind: 'deadline', words: 'no answer' } }, false).reply,
    /may arrive twice/,
  );
});

t.test('a reason is a sentence that names what was refused', async (t) => {
  const refusal: Ending = { phase: 'auth', reply: { code: 535, enhanced: '5.7.8', text: '535 5.7.8 bad' } };
  t.match(
    reasonOf(refusal),
    /FIELDPOST_RELAY_USER.*; it answered our user name and password with "535 5\.7\.8 bad"$/,
  );
  const token: Ending = { ...refusal, phase: 'token' };
  t.match(reasonOf(token), /the access token; it answered our access token with "535 5\.7\.8 bad"$/);
  const plain: Ending = { phase: 'mail', reply: { code: 451, enhanced: '4.3.0', text: '451 4.3.0 busy' } };
  t.equal(reasonOf(plain), 'it answered our sender address with "451 4.3.0 busy"');
  t.equal(reasonOf({ phase: 'resolve', trouble: { kind: 'dns', words: 'no such host' } }), 'no such host');
});
