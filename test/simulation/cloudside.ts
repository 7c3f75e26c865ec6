/**
 * The actions on the cloud of a simulated world, on the link to it, and on the address book at both ends.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { Disk } from '../../src/base/system/disk.js';
import type { Chance } from './chance.js';
import { endCloud, restart } from './deaths.js';
import { weightsOf } from './link.js';
import { DOCUMENT_FILE } from './settings.js';
import type { CloudAction } from './swarm.js';
import type { World } from './world.js';

/** Does an action, or starts it. */
export type Deed = (world: World, chance: Chance) => void | Promise<void>;

/** A device that is awake is in sync this long after the network works again. */
const MENDED_MS = 2 * MINUTE_MS;
/** How long to wait for a call that hangs. */
const HANGS_MS = 10 * MINUTE_MS;
/** Edits without a pause reach the cloud within this time. */
const HEARD_MS = 30 * SECOND_MS;
const EDITS_MIN = 5;

/** Without a cloud only the actions of the device do something. */
export async function actAtCloud(world: World, action: CloudAction, chance: Chance): Promise<void> {
  if (world.swarm.hasCloud || !NEED_CLOUD.test(action)) await DEEDS[action](world, chance);
}

const NEED_CLOUD = /^cloud |^edit without a pause$|^network is mended$/;

const DEEDS: Readonly<Record<CloudAction, Deed>> = {
  'add destination': ({ people }) => void people.add(),
  'edit destination': ({ people }) => void people.edit(),
  'remove destination': ({ people }) => void people.remove(),
  'remove hidden': ({ people }) => void people.removeHidden(),
  'edit without a pause': editWithoutPause,
  'cloud adds': ({ people }) => void people.screen('adds'),
  'cloud edits': ({ people }) => void people.screen('edits'),
  'cloud removes': ({ people }) => void people.screen('removes'),
  'cloud adds strange': ({ people }) => void people.screen('adds strange'),
  'cloud touches': ({ people }) => void people.screen('touches'),
  'cloud dies': (world, chance) => endCloud(world, chance.span(SECOND_MS, HOUR_MS)),
  'cloud is down for days': (world, chance) => endCloud(world, chance.span(HOUR_MS, 3 * DAY_MS)),
  'cloud is wiped': (world, chance) => loseDocument(world, chance, { since: 0, bytes: null }),
  'cloud is backed up': async ({ cloud, backups, people }) => {
    const bytes = await cloud.disk.readWhole(DOCUMENT_FILE);
    if (bytes !== null) backups.push({ since: people.edits.tick(), bytes });
  },
  'cloud is restored': (world, chance) => {
    if (world.backups.length > 0) loseDocument(world, chance, chance.one(world.backups));
  },
  'cloud has another URL': async (world) => {
    world.spelling++;
    await restart(world);
  },
  'cloud is left': async (world, chance) => {
    if (chance.is(0.5)) await delayHeartbeat(world);
    if (!world.device.isUp) return;
    world.isAway = !world.isAway;
    await restart(world);
  },
  'device is stopped': (world, chance) => restart(world, chance.span(HOUR_MS, 5 * DAY_MS)),
  'network changed': (world) => world.networkChanged(),
  'network is mended': mend,
  'damage is found': (world) => {
    world.isDamaged = true;
  },
};

/** A copy of the document from that tick of the book; null: there was none. */
export interface Backup {
  readonly since: number;
  readonly bytes: Buffer | null;
}

function loseDocument(world: World, chance: Chance, { since, bytes }: Backup): void {
  if (world.cloud.program === null) return;
  endCloud(world, chance.span(SECOND_MS, 10 * MINUTE_MS), async () => {
    const { disk } = world.cloud;
    await replace(disk, bytes);
    const document = bytes === null ? null : JSON.parse(bytes.subarray(9).toString()).document;
    world.people.lost(since, document);
    world.notices.document(document?.destinations ?? null);
  });
}

async function replace(disk: Disk, bytes: Buffer | null): Promise<void> {
  await disk.remove(DOCUMENT_FILE);
  if (bytes !== null) {
    const file = await disk.open(DOCUMENT_FILE, 'create');
    await file.write(bytes, 0);
    await file.sync();
    await file.close();
  }
  await disk.syncDirectory(DOCUMENT_FILE.slice(0, DOCUMENT_FILE.lastIndexOf('/')));
}

/** A program edits several times a second for minutes: edits must reach the cloud meanwhile. */
async function editWithoutPause(world: World, chance: Chance): Promise<void> {
  const { people, timeline, bookWatch, link, model } = world;
  link.isUp = true;
  link.weights = weightsOf({});
  let sinceMs: number | null = null;
  let edits = 0;
  let heard = bookWatch.arrivals;
  const untilMs = timeline.nowMs + chance.span(20 * SECOND_MS, 3 * MINUTE_MS);
  while (timeline.nowMs < untilMs) {
    const { life } = world.device;
    void people.edit().then((isDone) => {
      if (isDone) edits++;
    });
    await world.pass(200 + chance.below(700));
    const state = await world.awaited(world.programs.state());
    const saysWell = state?.link?.state === 'online' && state?.destinations?.reason === null;
    // On a slow disk each edit takes seconds, and the sync waits behind the edits.
    const isWell = saysWell && world.cloud.isUp && world.diskTrouble === 'none';
    const isSame = life === world.device.life && heard === bookWatch.arrivals;
    if (!isWell || !isSame || edits === 0) {
      sinceMs = null;
      edits = 0;
    }
    heard = bookWatch.arrivals;
    sinceMs ??= timeline.nowMs;
    if (edits < EDITS_MIN || timeline.nowMs - sinceMs < HEARD_MS) continue;
    return model.violation(`of ${edits} edits the cloud has heard nothing for ${HEARD_MS / SECOND_MS} s`);
  }
}

/** Delays the next heartbeat: it arrives after the one that follows it. */
async function delayHeartbeat(world: World): Promise<void> {
  const { link, timeline, swarm } = world;
  link.isUp = true;
  link.ill = ['heartbeat'];
  link.weights = weightsOf({ good: 0, late: 1 });
  const untilMs = timeline.nowMs + HANGS_MS;
  while (link.hanging('heartbeat') === 0 && timeline.nowMs < untilMs) await world.pass(SECOND_MS);
  link.ill = swarm.ill;
  link.weights = weightsOf({});
}

/** The network is dead for a while. The device learns that it works again while a call hangs. */
async function mend(world: World, chance: Chance): Promise<void> {
  const { device, link, cloud, model, patience, timeline } = world;
  const kind = chance.one(['heartbeat', 'destinations'] as const);
  link.isUp = true;
  link.ill = [kind];
  link.weights = weightsOf({ good: 0, 'lost request': 1 });
  // Without an edit the device makes no call for the document.
  if (kind === 'destinations') await world.awaited(world.people.edit());
  await world.pass(chance.span(2 * MINUTE_MS, 40 * MINUTE_MS));
  const untilMs = timeline.nowMs + HANGS_MS;
  while (link.hanging(kind) === 0 && timeline.nowMs < untilMs) await world.pass(SECOND_MS);
  link.ill = world.swarm.ill;
  link.weights = weightsOf({});
  const livesOf = () => `${device.life} ${cloud.life}`;
  const isUpOf = () => device.isUp && cloud.isUp && !world.isAway;
  const [lives, isUp, mayWait] = [livesOf(), isUpOf(), patience.mayWait];
  world.networkChanged();
  const flushed = await world.awaited(world.programs.steer('flush'));
  await world.pass(MENDED_MS);
  // The device reaches a cloud that starts later only after a pause.
  const isSame = isUp && isUpOf() && lives === livesOf();
  if (!isSame || mayWait || flushed?.status !== 202 || world.diskTrouble !== 'none') return;
  const state = await world.awaited(world.programs.state());
  if (state === null) return;
  const { synced, reason } = state.destinations ?? {};
  if (state.link?.state !== 'online')
    model.violation(`the network is mended, and the link is ${JSON.stringify(state.link)}`);
  else if (synced !== true && !/ten minutes/.test(String(reason)))
    model.violation(`the network is mended, and the book is ${JSON.stringify(state.destinations)}`);
}
