/** The daemon in a control group of 64 MB, with a backlog of 10,000 and an attachment of nearly 25 MiB. */
import { setTimeout as pause } from 'node:timers/promises';
import { test } from 'tap';
import { MIB } from '../../src/limits.js';
import type { DaemonProcess } from '../support/daemon.js';
import { otherRelay } from '../support/other-relay.js';
import { FIXED_SHARE_MAX, MemoryGroup, skipWithoutMemoryGroup } from './memory-group.js';

const LIMIT_BYTES = 64 * MIB;
const BACKLOG = 10_000;
const BATCH = 100;
// A message may have 25 MiB; the rest is for its text.
const FILE_BYTES = 25 * MIB - 64 * 1024;

async function fill({ api }: DaemonProcess): Promise<void> {
  const mail = { type: 1, destination: 'john@example.com', subject: 'x', plain: 'x'.repeat(1000) };
  for (let i = 0; i < BACKLOG / BATCH; i++) {
    const { status, text } = await api('messages', Array(BATCH).fill(mail));
    if (status !== 202) throw new Error(text);
  }
}

async function upload({ port }: DaemonProcess): Promise<number> {
  const form = new FormData();
  form.set('destination', 'john@example.com');
  form.set('subject', 'a file');
  form.set('file', new Blob([Buffer.alloc(FILE_BYTES, 'x')]), 'big.log');
  const url = `http://127.0.0.1:${port}/api/internal/messages`;
  return (await fetch(url, { method: 'POST', body: form })).status;
}

test('64 MB suffice for a backlog and a large file', { skip: skipWithoutMemoryGroup() }, async (t) => {
  const group = MemoryGroup.create(t, LIMIT_BYTES);
  // Without page cache: the kernel lets a group fill its limit with that.
  const check = (when: string) => {
    const share = group.takeFixedPeak() / LIMIT_BYTES;
    t.ok(share < FIXED_SHARE_MAX, `${when}: peak ${(100 * share).toFixed(0)} %`);
  };
  let arrived = 0;
  let bytes = 0;
  const relay = await otherRelay({
    async onMail(mail) {
      for await (const chunk of mail) bytes += chunk.length;
      arrived++;
    },
  });
  t.teardown(relay.close);
  const first = await group.start(t, { FIELDPOST_MAX_QUEUE: '10001' });
  await fill(first);
  t.equal(await upload(first), 202, 'it accepts the file beside the backlog');
  check('accepted');
  t.equal(await first.end('SIGKILL'), null);
  const relayed = { FIELDPOST_RELAY: relay.url };
  const second = await group.start(t, { FIELDPOST_MAX_QUEUE: '10001', ...relayed });
  while (arrived <= BACKLOG && second.child.exitCode === null) await pause(50);
  t.equal(arrived, BACKLOG + 1, 'it delivers everything');
  t.ok(bytes > (FILE_BYTES * 4) / 3, 'it sends the whole file');
  check('delivered');
  t.equal(group.killed, 0, 'the kernel killed no process');
  t.equal(await second.end('SIGTERM'), 0);
});
