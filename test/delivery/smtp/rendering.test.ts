/** The size that is told before a message has an id is that of its mail, and the relays' limits are put together. */
import t from 'tap';
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
  t.equal(told, size);
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
