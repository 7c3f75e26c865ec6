/** Hostile and random clients: the server survives, keeps nothing, and takes what was sent, octet for octet. */
import { test } from 'tap';
import { settled } from '../support/clock.js';
import { IS_LONG, mutilate } from '../support/fuzz.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { type Client, openDoor } from './door.js';

const TRIES = IS_LONG ? 5000 : 150;

/** Sends it in random packets. */
async function trickle(client: Client, random: () => number, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + Math.floor(random() ** 3 * 3000);
    client.send(bytes.subarray(at, at + length));
    at += length;
    if (random() < 0.3) await settled();
  }
}

test('what was sent is what the intake got', async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  const door = await openDoor(t);
  const parts = [
    '\r\n',
    '.',
    '\r\n.',
    '\r\n.\r',
    '\r',
    '\n',
    '\n.\n',
    '\0',
    '\xff',
    'RSET\r\n',
    'x'.repeat(998),
  ];
  const client = await door.greeted();
  for (let round = 0; round < TRIES; round++) {
    const size = Math.floor(random() ** 4 * 400);
    const text = `${Array.from({ length: size }, () => pick(random, parts)).join('')}\r\n`;
    await client.data();
    const stuffed = text.replace(/(^|\n)\./g, '$1..');
    const reply = client.hear();
    await trickle(client, random, Buffer.from(`${stuffed}.\r\n`, 'latin1'));
    t.match(await reply, /^250 /);
    const got = door.mails.pop()?.octets.toString('latin1');
    if (got !== text) t.equal(got, text, `round ${round}`);
  }
  t.equal(door.open, 0);
});

const SESSION = [
  'EHLO me\r\n',
  'MAIL FROM:<a@x.org> SIZE=12 BODY=8BITMIME\r\n',
  'RCPT TO:<b@y.org>\r\n',
  'DATA\r\n',
  'Subject: x\r\n\r\n..text\r\n.\r\n',
  'RSET\r\nNOOP\r\n',
  'AUTH PLAIN AGFueQBnb29k\r\n',
  'MAIL FROM:<ż@x.org> SMTPUTF8\r\n',
  'QUIT\r\n',
];
const PIECES = [
  '\r',
  '\n',
  '\0',
  '\r\n.\r\n',
  '\n.\n',
  'STARTTLS\r\n',
  'DATA\r\n',
  '*',
  '<',
  '\xff',
  'x'.repeat(3000),
];

test('random octets: every reply is one, and nothing is left behind', async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const codes: Record<string, number> = {};
  const door = await openDoor(t, { tokens: ['good'] });
  for (let round = 0; round < 2 * TRIES; round++) {
    const random = seededRandom(Math.imul(seed, 0x9e3779b1) + round);
    const client = await door.dial();
    await client.hear();
    const at = Math.floor(random() * SESSION.length);
    let accepted = 0;
    for (const [index, line] of SESSION.entries()) {
      const octets = Buffer.from(line, 'latin1');
      client.send(index === at ? mutilate(random, octets, PIECES) : octets);
      await settled();
    }
    client.socket.end();
    // A wrong password is answered after a pause.
    for (let step = 0; step < 5 && !client.socket.closed; step++) await door.clock.advance(8000);
    await client.closed;
    const heard = await client.rest();
    for (const line of heard.split('\r\n')) {
      if (line === '') continue;
      const [, code] = /^(\d{3})[ -][ -~]*$/.exec(line) ?? [];
      if (code === undefined) t.fail(`no reply: ${JSON.stringify(line)}`);
      else codes[code] = (codes[code] ?? 0) + 1;
      if (line.includes('queued as')) accepted++;
    }
    if (door.mails.length !== accepted) t.equal(door.mails.length, accepted, `round ${round}: ${heard}`);
    door.mails.length = 0;
  }
  t.comment(JSON.stringify(codes));
  t.equal(door.open, 0, 'no intake is left open');
  t.same(
    door.logged.filter(([event]) => event === 'smtp failed'),
    [],
    'no bug',
  );
  const client = await door.greeted();
  t.match(await client.ask('NOOP'), /^250 /);
});

test('no smuggled mail, whatever stands around the dot', async (t) => {
  const door = await openDoor(t);
  const breaks = ['\n', '\r', '\r\n', '\n\r', '\r\r\n', '\r\0\n', '\0\n'];
  const inner = 'MAIL FROM:<evil@x.org>\r\nRCPT TO:<victim@y.org>\r\nDATA\r\nevil\r\n';
  for (const before of breaks) {
    for (const after of breaks) {
      // CR LF . CR LF, also behind another CR, is the end: what follows are commands, as the client means it.
      if (/\r\n$/.test(before) && after === '\r\n') continue;
      const client = await door.greeted();
      await client.data();
      t.match(await client.ask(`text${before}.${after}${inner}.`), /^250 /);
      t.match(await client.ask('NOOP'), /^250 2\.0\.0 Nothing/, 'there was one mail');
      const [mail, ...more] = door.mails.splice(0);
      t.same(more, []);
      t.same(mail?.to, ['b@y.org']);
      t.ok(String(mail?.octets).endsWith(inner), JSON.stringify([before, after]));
      await client.ask('QUIT');
    }
  }
});
