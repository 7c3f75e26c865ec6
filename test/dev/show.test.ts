import { t } from 'tap';
import { showMail, showShort } from '../../src/dev/dev.js';

const mail = (...lines: string[]) => ({
  from: 'a@x',
  to: ['b@y', 'c@z'],
  raw: Buffer.from(lines.join('\r\n')),
});

t.test('how a mail is printed', async (t) => {
  const shown = showMail(mail('Subject: =?utf-8?Q?=C5=BB?=', '', 'one\ttwo', 'three', ''), 'mail/000001.eml');
  t.match(shown, /From: a@x\nTo: b@y, c@z\nSubject: Ż\n\none\ttwo\nthree\n/);
  const halved = showMail(
    mail('Content-Type: text/plain; charset=utf-8', '', `${'x'.repeat(3999)}\u{1f4a7}`),
    'm',
  );
  t.match(halved, `\n${'x'.repeat(3999)}\n[and more]\n`, 'no character is halved');
});

t.test('no text of a mail controls the terminal', async (t) => {
  const evil = '\x00\x1b[2J\x7f\x9b31m\u200f\u202e\ufeff\u{e0041}\u2028';
  const quoted = Buffer.from(evil).toString('hex').replace(/../g, '=$&');
  const raw = mail(
    'Content-Type: multipart/mixed; boundary=b',
    `Subject: =?utf-8?Q?${quoted}=0A=0D=09x?=`,
    '',
    '--b',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: quoted-printable',
    '',
    `${quoted}=0Doverwritten`,
    '--b',
    `Content-Type: image/\x1bpng; name*=utf-8''${quoted.replaceAll('=', '%')}%0A`,
    '',
    '--b--',
  ).raw;
  const shown = showMail({ from: `${evil}\r\n`, to: [evil], raw }, evil);
  t.notMatch(shown, /[^\P{Cc}\n]|[\p{Cf}\p{Zl}]/u);
  const visible = '\\u0000\\u001b[2J\\u007f\\u009b31m\\u200f\\u202e\\ufeff\\udb40\\udc41\\u2028';
  t.match(shown, `Subject: ${visible} \\u000d x\n`, 'a value in one line has no line break');
  t.match(shown, `\n\n${visible}\noverwritten\n`);
  t.match(shown, `[attached: ${visible} , image/\\u001bpng, 0 octets]`);
});

t.test('short messages are shown without control characters', async (t) => {
  const push = { type: 4, destination: 'OWNER', message: 'low\u001b[2J', title: 'Pump\n3' } as const;
  t.equal(showShort(push), '── Push message\nTo: OWNER\nTitle: Pump 3\n\nlow\\u001b[2J\n\n');
  t.equal(
    showShort({ type: 2, destination: '+31612345678', message: 'x' }),
    '── SMS\nTo: +31612345678\n\nx\n\n',
  );
});
