/** The network's files, as those who manage it write them; the kernel's own notifications. */
import { once } from 'node:events';
import { mkdirSync, renameSync, rmSync, symlinkSync, watch, writeFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import {
  NETWORK_EVERY_MS,
  NETWORK_LOOK_MS,
  NETWORK_QUIET_MS,
  watchNetwork,
} from '../../src/base/system/network-watch.js';
import { FakeClock } from '../support/clock.js';

interface World {
  readonly etc: string;
  readonly run: string;
  readonly clock: FakeClock;
  changes: number;
  /** Resolves once the kernel has told of all that was written before. */
  told(): Promise<void>;
}

/** Writes a file and waits until the kernel has told of it. */
async function toldOf(directory: string, name: string): Promise<void> {
  const watcher = watch(directory);
  const seen = once(watcher, 'change');
  writeFileSync(`${directory}/${name}`, 'x');
  await seen;
  watcher.close();
}

async function world(t: Test, { isLinked = false } = {}): Promise<World> {
  const directory = t.testdir({
    etc: isLinked ? {} : { 'resolv.conf': '' },
    run: { links: {}, 'stub.conf': '' },
    fence: {},
  });
  if (isLinked) symlinkSync('../run/stub.conf', `${directory}/etc/resolv.conf`);
  const [etc, run, fence] = ['etc', 'run', 'fence'].map((name) => `${directory}/${name}`) as [
    string,
    string,
    string,
  ];
  const clock = new FakeClock();
  const here: World = {
    etc,
    run,
    clock,
    changes: 0,
    // The kernel tells of writes in their order.
    told: () => toldOf(fence, 'file'),
  };
  const watching = watchNetwork(
    () => here.changes++,
    { clock, random: () => 0, isOffline: () => false },
    {
      resolver: `${etc}/resolv.conf`,
      state: [`${run}/links`, `${run}/absent`],
    },
  );
  t.teardown(() => watching.close());
  await clock.advance(NETWORK_QUIET_MS);
  return here;
}

/** How many changes an act is. */
async function changesOf(here: World, act: () => void): Promise<number> {
  await here.clock.advance(NETWORK_EVERY_MS);
  const before = here.changes;
  act();
  await here.told();
  await here.clock.advance(NETWORK_QUIET_MS);
  return here.changes - before;
}

t.test('each way of writing a resolver file is noticed, and nothing else', async (t) => {
  const here = await world(t);
  const { etc, run } = here;
  const resolver = `${etc}/resolv.conf`;
  t.equal(await changesOf(here, () => writeFileSync(resolver, 'nameserver ::1\n')), 1, 'in place');
  const replace = () => {
    writeFileSync(`${etc}/new`, 'nameserver ::2\n');
    renameSync(`${etc}/new`, resolver);
  };
  t.equal(await changesOf(here, replace), 1, 'replaced');
  t.equal(await changesOf(here, replace), 1, 'and once more');
  t.equal(await changesOf(here, () => rmSync(resolver)), 1, 'removed');
  t.equal(await changesOf(here, () => writeFileSync(resolver, '')), 1, 'made anew');
  t.equal(await changesOf(here, () => writeFileSync(`${run}/links/2`, 'OPER_STATE=routable\n')), 1, 'a link');
  t.equal(await changesOf(here, () => writeFileSync(`${etc}/passwd`, 'x')), 0, 'another file beside it');
  t.equal(await changesOf(here, () => undefined), 0);
});

t.test('a resolver file behind a symbolic link is watched, too', async (t) => {
  const here = await world(t, { isLinked: true });
  const replace = () => {
    writeFileSync(`${here.run}/new`, 'nameserver ::2\n');
    renameSync(`${here.run}/new`, `${here.run}/stub.conf`);
  };
  t.equal(await changesOf(here, replace), 1);
  t.equal(await changesOf(here, replace), 1, 'and once more');
  rmSync(`${here.run}/stub.conf`);
  t.equal(
    await changesOf(await world(t, { isLinked: true }), replace),
    1,
    'which is not there yet at the start',
  );
});

t.test('many changes are one, and not too often', async (t) => {
  const here = await world(t);
  const write = async () => {
    writeFileSync(`${here.run}/links/2`, 'x');
    await here.told();
  };
  for (let n = 0; n < 5; n++) await write();
  await here.clock.advance(NETWORK_QUIET_MS - 1);
  t.equal(here.changes, 0, 'the last of them is waited for');
  await here.clock.advance(1);
  t.equal(here.changes, 1);
  await write();
  await here.clock.advance(NETWORK_EVERY_MS - 1);
  t.equal(here.changes, 1);
  await here.clock.advance(1);
  t.equal(here.changes, 2);
});

t.test('a directory that is made later is watched from the next change on', async (t) => {
  const here = await world(t);
  const later = `${here.run}/absent`;
  mkdirSync(later);
  await changesOf(here, () => writeFileSync(`${here.run}/links/2`, 'x'));
  t.equal(await changesOf(here, () => writeFileSync(`${later}/1`, 'x')), 1);
});

t.test('devices on one switch do not come back in one moment', async (t) => {
  const directory = t.testdir({ 'resolv.conf': '', links: {} });
  const clock = new FakeClock();
  let random = 0;
  const waits: number[] = [];
  const watched = {
    bootMs: () => clock.bootMs(),
    after(ms: number, wake: () => void) {
      waits.push(ms);
      return clock.after(ms, wake);
    },
  };
  for (random of [0, 0.5]) {
    const one = watchNetwork(
      () => undefined,
      { clock: watched, random: () => random, isOffline: () => false },
      { resolver: `${directory}/resolv.conf`, state: [] },
    );
    await clock.advance(NETWORK_QUIET_MS);
    await toldOf(directory, 'resolv.conf');
    one.close();
  }
  const quiet = [1, 1, 1, 1.5].map((times) => times * NETWORK_QUIET_MS);
  t.same(
    waits.filter((ms) => ms !== NETWORK_LOOK_MS),
    quiet,
  );
});

t.test('while something is offline the network itself is compared, every 5 s', async (t) => {
  const clock = new FakeClock();
  let isOffline = false;
  let network = 'cable out';
  let looks = 0;
  let changes = 0;
  const watching = watchNetwork(
    () => changes++,
    { clock, random: () => 0, isOffline: () => isOffline },
    {
      resolver: '/nowhere',
      state: [],
      async look() {
        looks++;
        return network;
      },
    },
  );
  t.teardown(() => watching.close());
  await clock.advance(NETWORK_EVERY_MS);
  network = 'cable in';
  await clock.advance(NETWORK_EVERY_MS);
  t.equal(looks, 0, 'nobody looks while all is well');
  network = 'cable out';
  isOffline = true;
  await clock.advance(4 * NETWORK_LOOK_MS);
  t.equal(looks, 4);
  t.equal(changes, 0, 'the first look only remembers');
  network = 'cable in';
  await clock.advance(NETWORK_LOOK_MS + NETWORK_QUIET_MS);
  t.equal(changes, 1);
  network = 'and a route';
  await clock.advance(NETWORK_LOOK_MS + NETWORK_EVERY_MS);
  t.equal(changes, 2, 'what comes a little later counts, too');
  isOffline = false;
  const before = looks;
  await clock.advance(NETWORK_EVERY_MS);
  t.equal(looks, before);
});

t.test('nothing to watch, and nothing after the end', async (t) => {
  const nowhere = { resolver: '/nowhere/at/all', state: ['/nowhere'] };
  const clock = new FakeClock();
  const of = { clock, random: () => 0, isOffline: () => false };
  t.doesNotThrow(() => watchNetwork(() => undefined, of, nowhere).close());
  const directory = t.testdir({ 'resolv.conf': '' });
  const resolver = `${directory}/resolv.conf`;
  const watching = watchNetwork(() => t.fail('called'), of, { resolver, state: [] });
  await clock.advance(NETWORK_QUIET_MS);
  await toldOf(directory, 'resolv.conf');
  t.equal(clock.pending, 2, 'a change is waited for');
  watching.close();
  await clock.advance(NETWORK_EVERY_MS);
});
