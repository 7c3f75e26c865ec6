/** The failures that nobody was told of: kept while somebody wants to be told, across restarts and snapshots. */
import t from 'tap';
import type { Address } from '../../src/mail/message/address.js';
import { type EmailDraft, NO_ATTACHMENTS } from '../../src/mail/message/message.js';
import type { Store } from '../../src/mail/store/store.js';
import { UNTOLD_MAX } from '../../src/mail/store/weight.js';
import { acceptOne, newDisk, openOn, STATE_DIR, settleAs } from '../support/store.js';

const OPS = 'ops@example.com' as Address;
const budget = { maxQueue: 10_000, maxSpoolBytes: 256 * 2 ** 20, minFreeBytes: 0 };
const watched = { ...budget, failuresTo: OPS };

async function endOne(store: Store, kind: 'sent' | 'failed' | 'expired'): Promise<string> {
  const id = await acceptOne(store, kind);
  await settleAs(store, id, kind);
  return id;
}

async function tell(store: Store, notice: string): Promise<string> {
  const content = { subject: 'x', plain: '', html: '' };
  const draft: EmailDraft = {
    type: 1,
    destination: OPS,
    content,
    attachments: NO_ATTACHMENTS,
    ignored: [],
    notice,
  };
  return (await store.accept([draft], null)).ids[0] as string;
}

t.test('failed and expired, in order, until a mail tells of them; also after a restart', async (t) => {
  for (const ending of ['stop', 'kill'] as const) {
    let disk = newDisk();
    const first = await openOn(disk, 1, { budget: watched });
    const failed = await endOne(first.store, 'failed');
    await endOne(first.store, 'sent');
    const expired = await endOne(first.store, 'expired');
    const later = await endOne(first.store, 'failed');
    const restart = async (store: Store) => {
      if (ending === 'stop') await store.close();
      else disk = disk.afterPowerCut('everything');
      return (await openOn(disk, 2, { budget: watched })).store;
    };
    const second = await restart(first.store);
    t.same([...second.untold], [failed, expired, later], ending);
    const notice = await tell(second, expired);
    t.same([...second.untold], [later]);
    await settleAs(second, notice, 'failed');
    t.same([...second.untold], [later], 'a mail of the daemon itself is not told');
    const third = await restart(second);
    t.same([...third.untold], [later], ending);
    await tell(third, '');
    t.same([...third.untold], [later], 'another mail of the daemon tells none');
    t.equal(third.list({ status: null, limit: 1, after: null, isDigest: true }).messages[0]?.id, notice);
    await third.close();
  }
});

t.test('queued again and failed again is a new failure', async (t) => {
  const { store } = await openOn(newDisk(), 1, { budget: watched });
  const [one, two] = [await endOne(store, 'failed'), await endOne(store, 'failed')];
  await store.retry(one);
  await settleAs(store, one, 'failed');
  t.same([...store.untold], [two, one]);
  await store.close();
});

t.test('without somebody to tell nothing is kept, and the snapshot is as before', async (t) => {
  const snapshots = [];
  for (const isWatched of [true, false]) {
    const disk = newDisk();
    const { store } = await openOn(disk, 1, { budget: isWatched ? watched : budget });
    await endOne(store, 'failed');
    t.equal(store.untold.size, isWatched ? 1 : 0);
    await store.close();
    snapshots.push(String(await disk.readWhole(`${STATE_DIR}/store.json`)));
  }
  t.same(
    snapshots.map((snapshot) => snapshot.includes('"untold"')),
    [true, false],
  );
});

t.test('they are bounded', async (t) => {
  const { store } = await openOn(newDisk(), 1, { budget: watched });
  for (let count = 0; count < UNTOLD_MAX + 2; count++) await endOne(store, 'expired');
  t.equal(store.untold.size, UNTOLD_MAX);
  await store.close();
});
