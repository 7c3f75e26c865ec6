/** The size that is told before a message has an id is that of its mail, and the relays' limits are put together. */
import PostalMime from 'postal-mime';
import t from 'tap';
import { DAY_MS, HOUR_MS } from '../../../src/base/limits.js';
import { Rendering } from '../../../src/mail/delivery/smtp/rendering.js';
import type { Address } from '../../../src/mail/message/address.js';
import { decodeWords } from '../../../src/mail/message/encoded-words.js';
import type { Draft, Email, EmailContent, EmailDraft } from '../../../src/mail/message/message.js';
import type { RelayConfig } from '../../../src/mail/settings.js';
import { FakeClock } from '../../support/clock.js';
import { whole } from '../../support/drafts.js';
import { FaultyDisk } from '../../support/faulty-disk.js';
import { addFile } from '../../support/spool.js';
import { openOn } from '../../support/store.js';

const relay = (host: string): RelayConfig => ({ host, port: 25, tls: 'never', user: null });
const from = 'device@example.com' as Address;

t.test('the size of a mail, before and after it is accepted', async (t) => {
  const clock = new FakeClock();
  const { store } = await openOn(new FaultyDisk({ directories: ['/var/lib'] }), 1, { clock });
  const mails = new Rendering({ config: { relays: [] }, sender: () => from, store, clock });
  const upload = await store.upload(0);
  const file = await addFile(upload, [Buffer.alloc(1000, 'é')], { name: 'Prüfung.csv', type: 'text/csv' });
  const draft = {
    type: 1 as const,
    destination: 'john@example.com' as Address,
    content: { subject: 'Grüße', plain: 'é\r\n'.repeat(100), html: '<b>' },
    attachments: [file],
    ignored: [],
  };
  const told = mails.bytesOf(draft);
  const {
    ids: [id = ''],
  } = await store.accept([draft], null);
  const message = store.get(id) as Email;
  const { size, content } = mails.parcel(message, (await store.content(message)) as EmailContent, from);
  t.equal(told, size + 'X-Fieldpost-Waited: P9999DT23H\r\n'.length, 'it may get this header');
  let bytes = 0;
  for await (const chunk of content as AsyncIterable<Buffer>) bytes += chunk.length;
  t.equal(bytes, size);
  await store.close();
});

t.test('a mail says how many it has replaced', async (t) => {
  const clock = new FakeClock();
  const { store } = await openOn(new FaultyDisk({ directories: ['/var/lib'] }), 1, { clock });
  const mails = new Rendering({ config: { relays: [] }, sender: () => from, store, clock });
  /** What goes out after so many of a draft. */
  const sent = async (draft: Draft, count: number) => {
    let id = '';
    for (let i = 0; i < count; i++) [id = ''] = (await store.accept([draft], null)).ids;
    const message = store.claim(id) as Email;
    const content = (await store.content(message)) as EmailContent;
    const text = async () => {
      const { size, content: bytes } = mails.parcel(message, content, from);
      const octets = Buffer.isBuffer(bytes) ? bytes : await whole(bytes);
      t.equal(octets.length, size);
      return octets.toString();
    };
    const first = await text();
    t.equal(await text(), first, 'the same octets at each attempt');
    return first;
  };
  const draftOf = (subject: string, more: Partial<Draft> = {}): Draft & { type: 1 } =>
    ({
      ...{ type: 1, destination: 'john@example.com' as Address, attachments: [], ignored: [], collapse: 'k' },
      content: { subject, plain: 'x\r\n', html: '', head: { headers: [['X-Site', 'north']] } },
      ...more,
    }) as Draft & { type: 1 };
  const once = await sent(draftOf('Leak'), 1);
  t.match(once, /Subject: Leak\r\n/);
  t.notMatch(once, /Replaced/);
  const quiet = await sent(draftOf('Leak'), 13);
  t.match(quiet, /Subject: Leak\r\n[\s\S]*\r\nX-Site: north\r\nX-Fieldpost-Replaced: 12\r\n/);
  const subjectIn = (mail: string) =>
    decodeWords((/\r\nSubject: ([\s\S]*?)\r\n(?! )/.exec(mail)?.[1] ?? '').replaceAll('\r\n', ''));
  t.equal(subjectIn(await sent(draftOf('Leak', { counts: true }), 13)), 'Leak (12 ×)');
  t.equal(subjectIn(await sent(draftOf('', { counts: true }), 3)), '(2 ×)');
  const long = subjectIn(await sent(draftOf('s'.repeat(998), { counts: true }), 3));
  t.equal(long, `${'s'.repeat(992)} (2 ×)`);
  for (const counts of [undefined, true] as const) {
    const draft = draftOf('Leak', counts && { counts });
    const told = mails.bytesOf(draft as EmailDraft);
    const { length } = await sent(draft, 300);
    t.ok(
      told >= length && told < length + 60,
      `the size is told with room for the count (${told}, ${length})`,
    );
  }
  const upload = await store.upload(0);
  const mail = Buffer.from('From: a@b.c\r\nSubject: Leak\r\n\r\nx\r\n');
  const file = await addFile(upload, [mail], { name: '', type: 'message/rfc822' });
  await store.accept([draftOf('Leak', { destination: 'jane@example.com' as Address })], null);
  const ready = draftOf('', {
    destination: 'jane@example.com' as Address,
    content: { subject: 'Leak', missing: ['message-id'] },
    attachments: [file],
    counts: true,
  } as Partial<Draft>);
  const complete = await sent(ready, 1);
  t.match(
    complete,
    /^X-Fieldpost-Replaced: 1\r\nMessage-ID: <[^>]*>\r\nFrom: a@b.c\r\nSubject: Leak\r\n\r\nx\r\n$/,
  );
  await store.close();
});

t.test('the largest mail that a relay takes', async (t) => {
  const clock = new FakeClock();
  const { store } = await openOn(new FaultyDisk({ directories: ['/var/lib'] }), 1, { clock });
  const [a, b] = [relay('a.example'), relay('b.example')];
  const config = { relays: [] as RelayConfig[] };
  const mails = new Rendering({ config, sender: () => from, store, clock });
  t.equal(mails.limitBytes, null, 'there is no relay');
  config.relays = [a];
  t.equal(mails.limitBytes, null, 'it has said nothing yet');
  mails.heard(a, 1000);
  t.equal(mails.limitBytes, 1000);
  config.relays = [a, b];
  t.equal(mails.limitBytes, null, 'the other may take more');
  mails.heard(b, 3000);
  t.equal(mails.limitBytes, 3000);
  mails.heard(b, null);
  t.equal(mails.limitBytes, null, 'it takes any');
  mails.heard(b, 10);
  t.equal(mails.limitBytes, 1000);
  await store.close();
});

const PLAIN = { subject: 'Pump 3', plain: 'It is hot.\r\n', html: '' };
const HTML =
  '<!DOCTYPE html>\r\n<html><head><title>x</title></head><body class="a">It is <b>hot</b>.</body></html>';

/** A mail with this content, sent after it has waited, as a parser reads it, and whether it was estimated. */
async function waited(
  ms: number,
  content: EmailContent,
  { lateNote = 'no', reboot = null as null | 'sure' | 'unsure' } = {},
) {
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const clock = new FakeClock();
  if (reboot === 'sure') clock.confirm();
  const before = await openOn(disk, 1, { clock });
  const draft = {
    type: 1 as const,
    destination: 'john@example.com' as Address,
    content,
    attachments: [],
    ignored: [],
  };
  const { ids } = await before.store.accept([draft], null);
  await before.store.close();
  const now = reboot === null ? clock : clock.reboot({ offMs: DAY_MS });
  now.suspend(ms - (reboot === null ? 0 : now.bootMs()));
  if (reboot === 'sure') now.confirm();
  const { store } = await openOn(disk, 1, { clock: now });
  const config = { relays: [], lateNote: lateNote as 'yes' | 'no' };
  const mails = new Rendering({ config, sender: () => from, store, clock: now });
  const message = store.get(ids[0] as string) as Email;
  const { content: octets } = mails.parcel(message, (await store.content(message)) as EmailContent, from);
  const bytes = octets as Buffer;
  await store.close();
  const postal = await PostalMime.parse(bytes);
  const header = postal.headers.find(({ key }) => key === 'x-fieldpost-waited')?.value;
  return { text: bytes.toString(), postal, header, isWithin: bytes.length <= mails.bytesOf(draft) };
}

t.test('a mail that waited for an hour says for how long', async (t) => {
  const rows: [ms: number, header: string | undefined][] = [
    [0, undefined],
    [HOUR_MS - 1, undefined],
    [HOUR_MS, 'PT1H'],
    [2 * HOUR_MS + 1, 'PT2H'],
    [DAY_MS, 'P1D'],
    [3 * DAY_MS + 4.5 * HOUR_MS, 'P3DT4H'],
    [21 * DAY_MS, 'P21D'],
  ];
  for (const [ms, header] of rows) {
    const { postal, ...found } = await waited(ms, PLAIN);
    t.equal(found.header, header);
    t.ok(found.isWithin);
    t.equal(postal.text, 'It is hot.\n');
  }
});

t.test('of a wait across boots only what is known counts', async (t) => {
  const known = await waited(2 * HOUR_MS, PLAIN, { lateNote: 'yes', reboot: 'sure' });
  t.equal(known.header, 'P1DT2H');
  t.match(known.postal.text, /^Waited 1 day 2 hours on the device\n/);
  const least = await waited(2 * HOUR_MS, PLAIN, { lateNote: 'yes', reboot: 'unsure' });
  t.equal(least.header, 'PT2H');
  t.match(least.postal.text, /^Waited at least 2 hours on the device\n/);
});

t.test('the note is the first line of each text, and only of a late mail', async (t) => {
  const ms = 21 * DAY_MS;
  const late = { lateNote: 'yes' };
  const plain = await waited(ms, PLAIN, late);
  t.equal(plain.postal.text, 'Waited 21 days on the device\n\nIt is hot.\n');
  t.ok(plain.isWithin);
  const both = await waited(ms, { ...PLAIN, html: HTML }, late);
  t.match(both.postal.text, /^Waited 21 days on the device\n\nIt is hot\.\n/);
  t.match(both.postal.html, '<body class="a"><p>Waited 21 days on the device</p>\nIt is <b>hot</b>.</body>');
  t.ok(both.isWithin);
  const rows = [
    ['<b>x</b>', '<p>Waited 21 days on the device</p>\n<b>x</b>'],
    ['<!doctype html><p>x', '<!doctype html><p>Waited 21 days on the device</p>\n<p>x'],
    ['<html lang="en"><p>x', '<html lang="en"><p>Waited 21 days on the device</p>\n<p>x'],
  ] as const;
  for (const [html, noted] of rows) {
    const found = await waited(ms, { ...PLAIN, plain: '', html }, late);
    t.equal(found.postal.html?.trimEnd(), noted);
  }
  t.equal((await waited(ms, { ...PLAIN, plain: '' }, late)).postal.text, 'Waited 21 days on the device\n\n');
  t.equal((await waited(HOUR_MS - 1, PLAIN, late)).postal.text, 'It is hot.\n');
});

t.test('all but the wait is the same at every attempt', async (t) => {
  const without = (text: string) => text.replace(/^X-Fieldpost-Waited: .*\r\n/m, '');
  const [first, later] = [await waited(0, PLAIN), await waited(5 * DAY_MS, PLAIN)];
  t.equal(without(later.text), first.text);
});
