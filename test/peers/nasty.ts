/**
 * Mails that have broken other programs, and two independent parsers that read them on arrival.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import PostalMime from 'postal-mime';
import type { Posted } from './peers.js';

type Nasty = Omit<Posted, 'destination'>;

const SMUGGLED =
  'x\r\n.\r\nMAIL FROM:<evil@field.example>\r\nRCPT TO:<other@post.example>\r\nDATA\r\nSubject: smuggled\r\n\r\n.\r\nQUIT\r\n';

/** By name, for the failure message. */
export const NASTY: Readonly<Record<string, Nasty>> = {
  Polish: { subject: 'Zażółć gęślą jaźń', plain: 'Pchnąć w tę łódź jeża lub ośm skrzyń fig.\r\n' },
  Greek: { subject: 'Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία', plain: 'Γαζέες καὶ μυρτιὲς δὲν θὰ βρῶ πιὰ\n' },
  Japanese: {
    subject: '色は匂へど散りぬるを我が世誰ぞ常ならむ'.repeat(20),
    plain: 'いろはにほへと'.repeat(300),
  },
  emoji: { subject: '👨‍👩‍👧‍👦🚨'.repeat(30), plain: '🏳️‍🌈🇵🇱\u200d🤷🏽‍♀️', html: '<p>🏴󠁧󠁢󠁳󠁣󠁴󠁿</p>' },
  'odd blanks': { subject: '  two  blanks,\u00a0one of another kind ', plain: 'a  \r\nb\t\r\n \r\n\t\r\n ' },
  'what looks encoded': { subject: '=?UTF-8?Q?=41?= =?x?=', plain: '=41=\r\n=C5=82\r\n==\r\n=' },
  'leading dots': { subject: '.', plain: '.\r\n..\r\n...x\r\n.a\r\n' },
  'SMTP in plain': { subject: 'a lone dot', plain: SMUGGLED },
  'SMTP with bare line ends': {
    subject: 'bare line ends',
    plain: SMUGGLED.replaceAll('\r\n', '\n'),
    html: SMUGGLED.replaceAll('\r\n', '\r'),
  },
  'mixed line ends': { subject: 'CR, LF', plain: 'a\rb\nc\r\nd\n\re\r\r\nf\n.\rg\r.\n' },
  'long lines': { subject: 'x'.repeat(998), plain: `${'y'.repeat(5000)} ${'ł'.repeat(3000)}\r\n` },
  'From and boundaries': {
    subject: '--',
    plain: 'From me\r\n>From you\r\n--=_mixed--\r\n--\r\n',
    html: '<hr>',
  },
  'control characters': { subject: 'bell', plain: 'a\u0000b\u0007c\u001b[31md\u007fe\u000bf\u000cg' },
  'HTML only': { subject: 'only HTML', html: '<b>.</b>\r\n.\r\n' },
  'no text': { subject: 'nothing to say', plain: '' },
};

/** A text mail as a reader sees it: null for a part that it does not have. */
interface Read {
  readonly subject: string;
  readonly plain: string | null;
  readonly html: string | null;
}

/** The posted mail with CRLF line breaks, as a parser must read it. */
export function meant({ subject = '', plain = '', html = '' }: Nasty): Read {
  const lines = (text: string) => text.replace(/\r\n?|\n/g, '\r\n');
  return {
    subject,
    plain: plain === '' && html !== '' ? null : lines(plain),
    html: html === '' ? null : lines(html),
  };
}

/**
 * Reads a mail with postal-mime, and undoes three habits of it. It gives LF, counts the line break before a boundary to
 * the part (RFC 2046 §5.1.1 counts it to the boundary), and drops an empty text.
 */
export async function readByPostalMime(bytes: Buffer): Promise<Read> {
  const { subject = '', text, html } = await PostalMime.parse(bytes);
  const told = (part: string) =>
    (text !== undefined && html !== undefined ? part.replace(/\n$/, '') : part).replaceAll('\n', '\r\n');
  return {
    subject,
    plain: text === undefined ? (html === undefined ? '' : null) : told(text),
    html: html === undefined ? null : told(html),
  };
}

/** Reads mails with Python's email package; throws if it finds a defect in one. */
export function readByPython(mails: readonly Buffer[]): Read[] {
  const input = mails.flatMap((mail) => {
    const head = Buffer.alloc(4);
    head.writeUInt32BE(mail.length);
    return [head, mail];
  });
  const script = fileURLToPath(new URL('../mime/parse_mail.py', import.meta.url));
  const { status, stdout, stderr } = spawnSync('/usr/bin/python3', [script], {
    input: Buffer.concat(input),
    maxBuffer: 1 << 26,
  });
  if (status !== 0) throw new Error(stderr.toString());
  const text = (value: string | null) => (value === null ? null : Buffer.from(value, 'base64').toString());
  return stdout
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => {
      const { subject, plain, html, defects } = JSON.parse(line);
      if (defects.length > 0) throw new Error(`Python finds ${defects.join('; ')}`);
      return { subject, plain: text(plain), html: text(html) };
    });
}
