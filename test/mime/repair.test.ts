/** What system programs write is made sendable, and what must not be touched is not. */
import PostalMime from 'postal-mime';
import t from 'tap';
import type { Address } from '../../src/mail/message/address.js';
import { ReadyMadeReader } from '../../src/mail/mime/ready-made.js';
import type { Repair } from '../../src/mail/mime/repair.js';
import { pick, seededRandom, testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

const REPAIR: Repair = {
  fixesFrom: true,
  mayBeFrom: (address) => address === 'pump@example.com',
  homesOf: () => ['owner@example.com' as Address],
  isOfThisDevice: (address) => /@(?:localhost|pump-3(?:\.field\.lan)?)$/.test(address),
  hostname: 'pump-3',
};

/** The mail as it is stored in the end, and what the reader says of it. */
function read(mail: string, options: Partial<Repair> = {}, cut = (bytes: Buffer) => [bytes]) {
  const reader = new ReadyMadeReader({ repair: { ...REPAIR, ...options } });
  const pieces = cut(Buffer.from(mail.replaceAll('\n', '\r\n'), 'latin1')).map((chunk) => reader.push(chunk));
  const { bytes, head, repaired, encoder } = reader.end();
  let stored = Buffer.concat([...pieces, bytes]);
  if (encoder !== null)
    stored = Buffer.concat([encoder.begin(), ...cut(stored).map((one) => encoder.push(one)), encoder.end()]);
  return { text: stored.toString('latin1').replaceAll('\r\n', '\n'), stored, head, repaired };
}

const longestLine = (text: string) => Math.max(...text.split('\n').map(({ length }) => length));

t.test('a sender that no relay takes becomes that of the device, and stays to be read', async (t) => {
  for (const [from, name, original = from] of [
    ['root (Cron Daemon)', 'root on pump-3'],
    ['"(Cron Daemon)" <root>', 'root on pump-3'],
    ['mdadm monitoring <root>', 'root on pump-3'],
    ['Fail2Ban <fail2ban@pump-3>', 'fail2ban on pump-3'],
    ['logwatch@pump-3.field.lan', 'logwatch on pump-3'],
    ['Anna <anna@elsewhere.example>', 'Anna on pump-3'],
    ['anna@elsewhere.example', 'anna on pump-3'],
    ['=?UTF-8?Q?J=C3=B6rg?= <joerg@elsewhere.example>', 'Jörg on pump-3'],
    ['', 'Fieldpost on pump-3'],
    ['|/bin/sh', 'Fieldpost on pump-3'],
    ['a b c <', 'Fieldpost on pump-3'],
  ] as const) {
    const { text, head, repaired } = read(`From: ${from}\nTo: a@example.com\n\nx\n`);
    t.equal(repaired?.fromName, name, from);
    t.ok(head.missing.includes('from'), from);
    t.match(text, `X-Original-From: ${original}\n`, from);
    t.notMatch(text, /^From:/m, from);
  }
});

t.test('a sender elsewhere gets the answers, unless the mail says who does', async (t) => {
  const from = 'From: Anna <anna@elsewhere.example>\n';
  t.match(read(`${from}\nx\n`).text, /^Reply-To: Anna <anna@elsewhere\.example>$/m);
  t.notMatch(read(`${from}Reply-To: b@example.com\n\nx\n`).text, /Reply-To: Anna/);
  t.notMatch(read('From: root@pump-3\n\nx\n').text, /Reply-To/);
  t.notMatch(read('From: root\n\nx\n').text, /Reply-To/);
});

t.test('text beyond ASCII becomes UTF-8, and no character of it ends a line', async (t) => {
  const octets = (text: string) => Buffer.from(text).toString('latin1');
  // Cut to eight bits, these characters are line breaks, colons and blanks.
  const foreign = [
    'aЍЊContent-TypeĺĠtext/htmlЍЊXĺĠ@example.org',
    'иван@пример.рф',
    'jürgen@elsewhere.example',
  ];
  for (const from of foreign) {
    for (const sent of [octets(from), ...(from.includes('ü') ? [from] : [])]) {
      const { text, head } = read(`From: ${sent}\nTo: a@example.com\n\nx\n`);
      const names = text
        .split('\n\n', 1)[0]
        ?.split('\n')
        .map((line) => line.split(':', 1)[0]);
      t.strictSame(names, ['X-Original-From', 'To', 'Reply-To'], from);
      t.ok(text.includes(`\nReply-To: <${octets(from)}>\n`), from);
      t.equal(head.isEightBit, true, from);
    }
  }
  const localAddress = 'иванЍЊXĺĠy@example.com' as Address;
  const { text } = read(`From: pump@example.com\nTo: root, ${octets('jürgen@example.org')}\n\nx\n`, {
    homesOf: () => [localAddress, 'second@example.com' as Address],
  });
  t.equal(
    text.replaceAll('\n ', ' '),
    `From: pump@example.com\nTo: <${octets(localAddress)}>, <${octets('jürgen@example.org')}>\n\nx\n`,
  );
});

t.test('an allowed sender stays, and so does each one with FIELDPOST_FROM_HEADER=keep', async (t) => {
  const good = 'From: Pump 3 <pump@example.com>\nTo: a@example.com\n\nx\n';
  t.equal(read(good).text, good);
  t.equal(read(good).repaired?.fromName, null);
  const cron = 'From: root (Cron Daemon)\nTo: a@example.com\n\nx\n';
  t.equal(read(cron, { fixesFrom: false }).text, cron);
});

t.test('From and Sender are each judged by itself', async (t) => {
  const from = 'From: Pump 3 <pump@example.com>\n';
  const sent = read(`${from}Sender: root@pump-3\n\nx\n`);
  t.equal(sent.text, `${from}X-Original-Sender: root@pump-3\n\nx\n`, 'Sender is checked, too');
  t.equal(sent.repaired?.fromName, null, 'the good From stays');
  t.strictSame(sent.head.missing, ['date', 'message-id']);
  const other = read(`From: Anna <anna@elsewhere.example>\nSender: pump@example.com\n\nx\n`);
  t.match(other.text, /^X-Original-From: Anna .*\nSender: pump@example\.com\nReply-To: Anna /);
  t.equal(other.repaired?.fromName, 'Anna on pump-3');
  t.match(read('Sender: root\nDKIM-Signature: x\n\nx\n').repaired, { fromName: null, isSigned: true });
});

t.test('a signed mail is left alone, and says so', async (t) => {
  for (const signature of [
    'DKIM-Signature: v=1; h=from:to; b=x\n',
    'Content-Type: multipart/signed; boundary=b\n',
    'Content-Type: application/pkcs7-mime\n',
    'Content-Type: (S/MIME) application/pkcs7-mime\n',
  ]) {
    const mail = `From: root\nTo: root\n${signature}\nx\n`;
    t.equal(read(mail).text, mail);
    t.match(read(mail).repaired, { fromName: null, isSigned: true });
  }
  t.equal(
    read('From: pump@example.com\nDKIM-Signature: x\n\nx\n').repaired?.isSigned,
    false,
    'it needs no change',
  );
});

t.test('a name of a user in To and Cc becomes the address that it stands for', async (t) => {
  const { text } = read(
    'From: pump@example.com\nTo: root, Anna <a@example.com>, daemon\nCc:\n operator\n\nx\n',
  );
  t.match(text, /^To: <owner@example\.com>, Anna\n? ?<a@example\.com>$/m);
  t.match(text, /^Cc: <owner@example\.com>$/m);
  const mail = 'From: pump@example.com\nTo: "A, B"  <a@example.com>,\n b@example.com\nCc: root\n\nx\n';
  t.equal(read(mail, { homesOf: () => [] }).text, mail, 'nobody reads the mail of root');
  t.match(read(mail).text, 'To: "A, B"  <a@example.com>,\n b@example.com\n', 'a good header stays as it is');
});

t.test('a text with a long line is encoded, and parsers read it back', async (t) => {
  const random = seededRandom(seed);
  const letters = ['a', ' ', '\t', '=', '.', 'ä', '€', '\n', '\n.', 'From ', '\n\n', 'x'.repeat(500)];
  for (let round = 0; round < 100; round++) {
    let body = `${'y'.repeat(990)} ${'z'.repeat(Math.floor(10_000 * random()))}`;
    for (let n = 0; n < 50; n++) body += pick(random, letters);
    body += '\n';
    const head = pick(random, [
      '',
      'Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\nMIME-Version: 1.0\n',
      'MIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\n',
    ]);
    const mail = Buffer.from(`From: pump@example.com\nSubject: s\n${head}\n${body}`).toString('latin1');
    const size = 1 + Math.floor(5000 * random());
    const cut = (bytes: Buffer) =>
      Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
        bytes.subarray(n * size, (n + 1) * size),
      );
    const { text, stored } = read(mail, {}, cut);
    t.ok(longestLine(text) <= 76, `a line of ${longestLine(text)}`);
    t.equal(text.match(/^Content-Transfer-Encoding:/gm)?.length, 1);
    const parsed = await PostalMime.parse(stored);
    const got = head.includes('html') ? parsed.html : parsed.text;
    if (got?.replaceAll('\r\n', '\n').trimEnd() !== body.trimEnd()) t.equal(got, body, `round ${round}`);
  }
});

t.test('without a long line a text stays as it is', async (t) => {
  const mail = `From: pump@example.com\n\n${'y'.repeat(998)}\n`;
  t.equal(read(mail).text, mail);
});

t.test('a long line of the header is folded at blanks', async (t) => {
  const words = Array.from({ length: 300 }, (_, n) => `word${n}`).join(' ');
  const { text, head } = read(`From: pump@example.com\nX-Report: ${words}\nSubject: ${words}\n\nx\n`);
  t.ok(longestLine(text) <= 998);
  t.equal(
    text.replaceAll('\n ', ' '),
    `From: pump@example.com\nX-Report: ${words}\nSubject: ${words}\n\nx\n`,
  );
  t.match(head.subject, /^word0 word1 /);
});

t.test('a long line in the header of a signed mail is refused: it may be signed, too', async (t) => {
  const from = 'From: pump@example.com\n';
  const words = `X-Report: ${'word '.repeat(300)}\n`;
  for (const signature of ['DKIM-Signature: x\n', 'Content-Type: multipart/signed; boundary=b\n']) {
    t.throws(() => read(`${from}${signature}${words}\nx\n`), { code: 'invalid', message: /header.*998/ });
    const good = `${from}${signature}${words.slice(0, 998)}\n\nx\n`;
    t.equal(read(good).text, good);
  }
});

t.test('a long line is taken wherever a text has it', async (t) => {
  const from = 'From: pump@example.com\n';
  const long = `${'y'.repeat(1200)}\n`;
  for (const head of [
    'Content-Transfer-Encoding: 8bit (as it is)\n',
    'Content-Transfer-Encoding:\n (as it is) 7BIT\n',
    'Content-Type: (plain) text/plain; charset=utf-8\n',
    // What cannot be read counts as text/plain (RFC 2045 §5.2).
    'Content-Type: text\n',
    'Content-Type:\n',
  ]) {
    const { text, stored } = read(`${from}${head}\n${long}`);
    t.ok(longestLine(text) <= 76, head);
    t.equal((await PostalMime.parse(stored)).text, long, head);
  }
  const words = `Content-Type: text ${'x '.repeat(487)}\n`;
  t.ok(longestLine(read(`${from}${words}\n${long}`).text) <= 998, 'a longer name folds a header');
  const { text } = read(`${from}Content-Type: text\n\nü ${long}`);
  t.match(text, '\nX-Original-Content-Type: text\n');
  t.strictSame(text.match(/^Content-Type:.*/gm), ['Content-Type: text/plain; charset=iso-8859-1']);
});

t.test('a first line that is no header begins the body, however long it is', async (t) => {
  for (const octets of [70_000, 64 * 1024, 64 * 1024 + 1, 200_000]) {
    for (const head of ['', 'From: pump@example.com\nX-A: b\n c\n']) {
      for (const size of [1000, 300_000]) {
        const body = `${'y'.repeat(octets)}\n\nX-B: c\n`;
        const cut = (bytes: Buffer) =>
          Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
            bytes.subarray(n * size, (n + 1) * size),
          );
        const { text, stored } = read(head + body, {}, cut);
        t.ok(text.startsWith(`${head}MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n`), head);
        if ((await PostalMime.parse(stored)).text !== body) t.fail(`${octets} ${size} ${head}`);
      }
    }
  }
  for (const head of [
    'Subject:',
    'X-A: b\n ',
    'Content-Type: text/html\nContent-Transfer-Encoding: base64\n',
  ])
    for (const rest of ['y'.repeat(70_000), 'y '.repeat(35_000)])
      t.throws(() => read(`${head}${rest}\n\nx\n`), { code: 'invalid', message: /longer/ }, head);
});

t.test('blanks at the end of a long line of the header go', async (t) => {
  const from = 'From: pump@example.com\n';
  const blanks = ' \t'.repeat(1250);
  t.equal(read(`${from}Subject: xÃ\xa0${blanks}\n\nx\n`).text, `${from}Subject: xÃ\xa0\n\nx\n`);
  t.equal(
    read(`${from}Subject:${blanks}\n${blanks}\n y\n${blanks}\n\nx\n`).text,
    `${from}Subject:\n y\n\nx\n`,
    'nothing is left of a line of blanks',
  );
  t.equal(read(`${from}Subject: x  \n\nx\n`).text, `${from}Subject: x  \n\nx\n`, 'a short one stays');
});

t.test('without MIME, a long text is labelled as what its octets are', async (t) => {
  const from = 'From: pump@example.com\n';
  const long = `${'y'.repeat(990)} ${'z'.repeat(20)}`;
  const cut = (bytes: Buffer) => [...bytes].map((octet) => Buffer.of(octet));
  for (const [body, charset, said] of [
    [`${long}\n`, 'utf-8', `${long}\n`],
    [Buffer.from(`ü€🙂 ${long}\n`).toString('latin1'), 'utf-8', `ü€🙂 ${long}\n`],
    [`ü ${long}\n`, 'iso-8859-1', `ü ${long}\n`],
    [`${long}\n${Buffer.from('ü').toString('latin1')}\nü\n`, 'iso-8859-1', `${long}\nÃ¼\nü\n`],
    // It ends within a character.
    [`${long}\xc3`, 'iso-8859-1', `${long}Ã\n`],
  ] as const) {
    // In the second mail, the body begins with a line where headers are.
    for (const mail of [`${from}\n${body}`, `${from}${body}`]) {
      const { text, stored } = read(mail, {}, mail.length % 2 ? cut : undefined);
      t.match(text, `\nContent-Type: text/plain; charset=${charset}\n`, charset);
      t.equal((await PostalMime.parse(stored)).text?.replaceAll('\r\n', '\n'), said, charset);
    }
  }
});

t.test('what has a structure or a signature, and no blank, is refused with a long line', async (t) => {
  const long = `${'y'.repeat(999)}\n`;
  for (const head of [
    'Content-Type: multipart/mixed; boundary=b\n',
    'Content-Transfer-Encoding: base64\n',
    'Content-Transfer-Encoding: (8bit) base64\n',
    'Content-Transfer-Encoding: 8bit\nContent-Transfer-Encoding: base64\n',
    'Content-Type: multipart / mixed; boundary=b\n',
    'DKIM-Signature: x\n',
    'Content-Type: text/plain\nContent-Type: text/html\n',
  ])
    t.throws(() => read(`From: pump@example.com\n${head}\n${long}`), {
      code: 'invalid',
      message: /longer than 998/,
    });
  t.throws(() => read(`From: pump@example.com\nSubject: ${long}\nx\n`), {
    code: 'invalid',
    message: /header.*998/,
  });
});
