import { readFileSync } from 'node:fs';
import t from 'tap';
import { meaningOf, outcomeOf, subjectOf } from '../../../src/mail/delivery/smtp/failure-classification.js';
import { type Phase, parseReply } from '../../../src/mail/delivery/smtp/protocol.js';

function reply(text: string) {
  const parsed = parseReply(text.split('\n'));
  if (parsed === null) throw new Error(text);
  return parsed;
}

// Replies as the programs give them, from their sources and manuals.
const OF_US: readonly (readonly [fault: string, text: string])[] = [
  // Postfix
  ['name', '504 5.5.2 <vm>: Helo command rejected: need fully-qualified hostname'],
  ['name', '501 5.5.2 <a_b>: Helo command rejected: Invalid name'],
  ['name', '450 4.7.1 <vm.lan>: Helo command rejected: Host not found'],
  ['name', '554 5.7.1 Service unavailable; Helo command [vm] blocked using dbl.example'],
  ['sender', '504 5.5.2 <fieldpost@vm>: Sender address rejected: need fully-qualified address'],
  ['sender', '550 5.1.8 <a@b.invalid>: Sender address rejected: Domain not found'],
  ['sender', '450 4.1.8 <a@b.invalid>: Sender address rejected: Domain not found'],
  ['sender', '550 5.1.0 <a@b.example>: Sender address rejected: User unknown in local recipient table'],
  [
    'sender',
    '550 5.7.27 <a@b.example>: Sender address rejected: Domain b.example does not accept mail (nullMX)',
  ],
  ['login', '553 5.7.1 <a@b.example>: Sender address rejected: not logged in'],
  ['login', '553 5.7.1 <a@b.example>: Sender address rejected: not owned by user device'],
  ['client', '554 5.7.1 <unknown[192.0.2.7]>: Client host rejected: Access denied'],
  ['client', '450 4.7.25 Client host rejected: cannot find your hostname, [192.0.2.7]'],
  ['client', '554 5.7.1 Service unavailable; Client host [192.0.2.7] blocked using zen.example; listed'],
  ['client', '503 5.7.0 Error: access denied for unknown[192.0.2.7]'],
  ['relaying', '554 5.7.1 <john@example.net>: Relay access denied'],
  ['relaying', '454 4.7.1 <john@example.net>: Relay access denied'],
  ['encryption', '530 5.7.0 Must issue a STARTTLS command first'],
  ['protocol', '503 5.5.0 <DATA>: Data command rejected: Improper use of SMTP command pipelining'],
  // Exim
  ['sender', '550-Verification failed for <fieldpost@vm>\n550-Unrouteable address\n550 Sender verify failed'],
  ['sender', '451 Could not complete sender verify callout'],
  ['relaying', '550 relay not permitted'],
  ['protocol', '503 sender not yet given'],
  // Sendmail
  ['sender', '553 5.5.4 <fieldpost@localhost>... Real domain name required for sender address'],
  ['sender', '553 5.1.8 <a@b.invalid>... Domain of sender address a@b.invalid does not exist'],
  ['sender', '451 4.1.8 Domain of sender address a@b.example does not resolve'],
  ['relaying', '550 5.7.1 <john@example.net>... Relaying denied. IP name lookup failed [192.0.2.7]'],
  ['relaying', '450 4.4.0 Relaying temporarily denied. Cannot resolve PTR record for 192.0.2.7'],
  ['client', '550 5.7.1 Fix reverse DNS for 192.0.2.7'],
  // OpenSMTPD
  ['login', '530 5.5.1 Invalid command: Must issue an AUTH command first'],
  ['sender', '530 Sender rejected'],
  // Exchange Online
  ['sender', '550 5.7.60 SMTP; Client does not have permissions to send as this sender'],
  ['sender', '554 5.2.252 SendAsDenied; a@b.example not allowed to send as c@b.example'],
  ['sender', '550 5.1.8 Access denied, bad outbound sender'],
  ['sender', '550 5.7.750 Service unavailable. Client blocked from sending from unregistered domains'],
  ['login', '530 5.7.57 SMTP; Client was not authenticated to send anonymous mail during MAIL FROM'],
  ['relaying', '550 5.7.64 TenantAttribution; Relay Access Denied'],
  ['relaying', '550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain'],
  ['client', '550 5.7.708 Access denied, traffic not accepted from this IP'],
  ['client', '550 5.7.606 Access denied, banned sending IP [192.0.2.7]'],
  // Others
  ['client', '550-5.7.25 [192.0.2.7] The IP address sending this message does not have a PTR record'],
  ['sender', '550-5.7.26 Unauthenticated email from b.example is not accepted'],
];

const OF_OTHERS: readonly (readonly [subject: string | null, text: string])[] = [
  [
    'recipient',
    '550 5.1.1 <gone@example.com>: Recipient address rejected: User unknown in relay recipient table',
  ],
  [null, '504 5.5.2 <john@lan>: Recipient address rejected: need fully-qualified address'],
  [null, '450 4.2.0 <grey@example.com>: Recipient address rejected: Greylisted, come again'],
  [null, '450 4.7.1 Try again later, you are greylisted'],
  ['recipient', '501 5.1.3 Bad recipient address syntax'],
  ['recipient', '550 Unrouteable address'],
  ['recipient', '550 5.1.1 Invalid recipient: <john@example.com>'],
  ['recipient', '550 No such user here'],
  ['mailbox', '552 5.2.2 The user is over quota'],
  [null, '452 4.5.3 Too many recipients'],
  ['mailbox', '452 4.2.2 Mailbox full'],
  [null, '451 4.3.0 Local error in processing'],
  // Postfix's policy services and access tables say this for every reason.
  [null, '554 5.7.1 <john@example.net>: Recipient address rejected: Access denied'],
];

t.test('a refusal of this device at RCPT differs from a refusal of a recipient', async (t) => {
  for (const [fault, text] of OF_US) t.equal(subjectOf('rcpt', reply(text)), fault, text);
  for (const [fault, text] of OF_OTHERS) t.equal(subjectOf('rcpt', reply(text)), fault, text);
});

t.test('after the content a code that any refusal may have is not enough', async (t) => {
  const sendAs = '550 5.7.60 SMTP; Client does not have permissions to send as this sender';
  t.equal(subjectOf('dot', reply(sendAs)), 'sender');
  t.equal(subjectOf('dot', reply('550 5.7.23 SPF validation failed')), 'sender');
  t.equal(subjectOf('dot', reply('550 5.1.1 User unknown')), 'recipient');
  t.equal(subjectOf('rcpt', reply('550 5.1.1 no')), 'recipient');
  for (const text of [
    '552 5.7.0 This message was blocked',
    '554 5.5.1 no',
    '550 5.7.1 Spam',
    '503 5.5.1 what',
    '550 5.1.1 no',
    '550 No such user',
  ])
    t.equal(subjectOf('dot', reply(text)), null, text);
});

t.test('MAIL contains no recipient', async (t) => {
  t.equal(subjectOf('mail', reply('550 5.1.1 no such user')), null);
  t.equal(subjectOf('mail', reply('554 5.7.1 <vm>: Helo command rejected: no')), 'name');
  t.equal(subjectOf('mail', reply('550 5.3.0 broken')), null);
  t.equal(subjectOf('mail', reply('550 5.4.5 Daily user sending limit exceeded')), 'daily');
});

t.test('each fault of ours names the setting to correct, and a quota names none', async (t) => {
  const named = (text: string) => meaningOf('rcpt', reply(text))?.words;
  t.match(named('550 Sender verify failed'), 'FIELDPOST_FROM');
  t.match(
    named('504 5.5.2 <vm>: Helo command rejected: need fully-qualified hostname'),
    'FIELDPOST_HELO_NAME',
  );
  t.match(named('554 5.7.1 <a@b.c>: Relay access denied'), 'FIELDPOST_RELAY_USER');
  t.match(named('530 5.7.0 Must issue a STARTTLS command first'), 'FIELDPOST_RELAY');
  t.equal(named('550 5.1.1 User unknown'), undefined);
  for (const phase of ['mail', 'rcpt', 'dot'] as const)
    t.equal(
      meaningOf(phase, reply('550 5.4.5 Daily user sending limit exceeded'))?.words,
      'it says that the daily limit is reached',
    );
});

/** Refusals that providers publish: who is to blame, the phase, the text, where it was found. */
const PUBLISHED = readFileSync(new URL('refusals.tsv', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => line.split('\t') as [blame: string, phase: Phase, text: string, source: string]);

t.test('no published refusal of an account or a sender is final at its first word', async (t) => {
  let understood = 0;
  const ours = PUBLISHED.filter(([blame]) => blame !== 'recipient' && blame !== 'content');
  for (const [, phase, text, source] of ours) {
    const answer = reply(text.replace(/^(\d{3})-/, '$1 '));
    const { kind } = outcomeOf({ phase, reply: answer }, false);
    t.equal(kind, 'deferred', `${text} (${source})`);
    if (meaningOf(phase, answer) !== null) understood++;
  }
  t.ok(ours.length > 100 && understood > 60, `${understood} of ${ours.length} are explained`);
});

t.test('published refusals of a recipient or a content are not taken for those of the account', async (t) => {
  for (const [blame, phase, text, source] of PUBLISHED) {
    if (blame !== 'recipient' && blame !== 'content' && blame !== 'mailbox-full') continue;
    const { suspect } = outcomeOf({ phase, reply: reply(text.replace(/^(\d{3})-/, '$1 ')) }, false);
    // The words of a quota for equal Message-IDs are those of a quota of the account.
    if (!text.includes('Message-ID')) t.not(suspect, 'device', `${text} (${source})`);
  }
});

t.test(
  'words that a refusal of the account shares with one of a recipient or a content are not final',
  async (t) => {
    for (const [phases, text] of [
      ['rcpt dot', '550 5.7.1 Account disabled'],
      ['rcpt dot', '550 5.7.1 account closed'],
      ['rcpt dot', '554 5.7.1 Unknown account'],
      ['rcpt dot', '550 Access denied: account not found'],
      ['rcpt dot', '550 Mailbox disabled for outgoing mail'],
      ['rcpt dot', '554 5.7.1 The domain pump.example does not exist in this tenant'],
      ['rcpt dot', '550 5.7.1 User disabled'],
      ['rcpt dot mail', '554 Total size of messages exceeds limit'],
      ['rcpt dot mail', '550 Maximum batch size exceeded'],
      ['rcpt dot mail', '554 Transfer limit exceeded, max size 500 MB per month'],
      ['rcpt dot mail', '552 5.3.4 Total transfer size limit for this month exceeded'],
      ['rcpt dot mail', '550 5.6.0 Try again tomorrow'],
      ['mail', '550 5.6.0 something'],
    ] as const)
      for (const phase of phases.split(' ') as Phase[])
        t.equal(outcomeOf({ phase, reply: reply(text) }, false).kind, 'deferred', `${phase}: ${text}`);
  },
);

t.test('a mailbox that is full at MAIL is our own', async (t) => {
  for (const text of ['552 5.2.2 Mailbox full', '552 5.2.2 Mailbox quota exceeded', '452 4.2.2 Over quota'])
    t.equal(outcomeOf({ phase: 'mail', reply: reply(text) }, false).suspect, 'envelope', text);
});

t.test('what speaks of this recipient or this content is final at once', async (t) => {
  for (const [phase, text] of [
    ['rcpt', '550 5.1.1 <john@x.example>: Recipient address rejected: User unknown'],
    ['rcpt', '550 5.2.1 The email account that you tried to reach is disabled.'],
    ['rcpt', '550 No such user here'],
    ['rcpt', '550 unrouteable address'],
    ['dot', '552 5.3.4 Message size exceeds fixed limit'],
    ['mail', '552 5.3.4 Message size exceeds fixed limit'],
    ['mail', '552 message size exceeds maximum permitted'],
    ['dot', '552 Message too large'],
    ['dot', '554 5.6.0 Mail message is malformed'],
  ] as const)
    t.match(outcomeOf({ phase, reply: reply(text) }, false), { kind: 'failed', suspect: 'message' }, text);
});
