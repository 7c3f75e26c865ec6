/** Mails that have broken other programs, and a parser by other people that reads them on arrival. */
import PostalMime from 'postal-mime';
import type { Test } from 'tap';
import type { Fieldpost, Maildir, Posted } from './peers.js';

type Nasty = Omit<Posted, 'destination'>;

const SMUGGLED =
  'x\r\n.\r\nMAIL FROM:<evil@field.example>\r\nRCPT TO:<other@post.example>\r\nDATA\r\nSubject: smuggled\r\n\r\n.\r\nQUIT\r\n';

/** By name, for the failure message. */
const NASTY: Readonly<Record<string, Nasty>> = {
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

/** The posted mail with CRLF line breaks, as a parser must read it. CRs before an LF belong to its line break. */
function meant({ subject = '', plain = '', html = '' }: Nasty): Read {
  const lines = (text: string) => text.replace(/\r*\n|\r/g, '\r\n');
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

/** Posts each of them, and tests that it arrives once, as it was posted. Gives their ids and what arrived. */
export async function arriveAsPosted(
  t: Test,
  fieldpost: Fieldpost,
  maildir: Maildir,
): Promise<[id: string, bytes: Buffer][]> {
  const nasty = Object.entries(NASTY);
  const mails = nasty.map(([, mail]) => ({ destination: 'nasty@post.example', ...mail }));
  const ids = await fieldpost.post(...mails);
  const arrived: [string, Buffer][] = [];
  for (const [index, [name, mail]] of nasty.entries()) {
    const id = ids[index] ?? '';
    const { bytes } = await maildir.mail(id);
    t.same(await readByPostalMime(bytes), meant(mail), name);
    await fieldpost.said(new RegExp(` sent id=${id} `));
    t.equal(maildir.mails(id).length, 1, `${name} arrives once`);
    arrived.push([id, bytes]);
  }
  return arrived;
}
