/** The size that is told before a message has an id is that of its mail, and the relays' limits are put together. */
import t from 'tap';
import { Rendering } from '../../../src/mail/delivery/smtp/rendering.js';
import type { Address } from '../../../src/mail/message/address.js';
import type { Email, EmailContent } from '../../../src/mail/message/message.js';
import type { RelayConfig } from '../../../src/mail/settings.js';
import { FakeClock } from '../../support/clock.js';
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
