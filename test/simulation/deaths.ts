/**
 * How the machines of a simulated world die and come back.
 */
import { join } from 'node:path';
import { DAY_MS, SECOND_MS } from '../../src/base/limits.js';
import type { Chance } from './chance.js';
import type { Death } from './machine.js';
import { STATE_DIR } from './settings.js';
import type { World } from './world.js';

/** How long systemd waits for a stop before it kills (systemd/fieldpost.service). */
const STOP_MS = 40 * SECOND_MS;

/** The device dies and starts again some time later. */
export function die(world: World, death: Exclude<Death, 'stop'>, chance: Chance): void {
  const { device } = world;
  if (device.program === null && !device.isStarting) return;
  device.die(death);
  world.deviceEnded(death === 'power cut');
  world.rate.died();
  const wallMs = chance.is(0.2) ? chance.below(DAY_MS) : undefined;
  const offMs = death === 'kill' ? 5 * SECOND_MS : chance.span(SECOND_MS, 3 * DAY_MS);
  world.watchDisk();
  const isBoot = death === 'power cut';
  afterOff(world, offMs, () => {
    device.renew({ isBoot, ...(isBoot && wallMs !== undefined && { wallMs }) });
    void damage(world).then(() => world.start(device));
  });
}

/** Damages a snapshot, if the world asks for it. The journal is whole, so nothing is lost; the device cannot know that. */
async function damage(world: World): Promise<void> {
  if (!world.isDamaged || world.diskTrouble !== 'none') return;
  const { disk } = world.device;
  world.isDamaged = false;
  world.people.edits.discarded();
  const path = join(STATE_DIR, 'store.json.1');
  const file = await disk.open(path, 'create').catch(() => disk.open(path, 'update'));
  await file.write(Buffer.from('{"crc":"0'), 0);
  await file.sync();
  await file.close();
  await disk.syncDirectory(STATE_DIR);
}

/**
 * Stops the device's program and starts it again with the settings of that time. With `offMs` the device is off in
 * between.
 */
export async function restart(world: World, offMs = 0): Promise<void> {
  const { device, timeline } = world;
  const { program } = device;
  if (program === null || device.clock.isAsleep) return;
  const stopped = program.stop(world.config()).catch((error) => world.tell(`a stop failed: ${error}`));
  // The device may lose its power during the stop.
  const isOff = () => device.program !== program;
  // On a disk whose writes take seconds, a stop may take longer than systemd waits.
  const killedMs = world.diskTrouble === 'slow' ? timeline.nowMs + STOP_MS : Number.POSITIVE_INFINITY;
  await world.awaited(stopped, () => isOff() || timeline.nowMs >= killedMs);
  if (isOff()) return;
  // A stop writes its last outcomes, unless its disk refuses them.
  if (world.diskTrouble !== 'none') world.rate.died();
  device.die('kill');
  world.deviceEnded(false);
  world.watchDisk();
  if (offMs === 0) {
    device.renew({ isBoot: false });
    void world.start(device);
    return;
  }
  afterOff(world, offMs, () => {
    device.renew({ isBoot: true });
    void world.start(device);
  });
}

/** Kills the cloud, and starts it again after `offMs`. `change` changes its disk in between. */
export function endCloud(
  world: World,
  offMs: number,
  change: () => Promise<void> = async () => undefined,
): void {
  const { cloud, timeline } = world;
  if (cloud.program === null) return;
  cloud.die('kill');
  cloud.renew({ isBoot: true });
  world.model.ended(true, 8, timeline.nowMs);
  world.notices.cloudEnded();
  world.offUntilMs = Math.max(world.offUntilMs, timeline.nowMs + offMs);
  void change().then(() => timeline.after(offMs, () => void world.start(cloud)));
}

/** Calls `start` after the time without power. The end of a world waits for that. */
function afterOff(world: World, offMs: number, start: () => void): void {
  const { timeline } = world;
  world.offUntilMs = Math.max(world.offUntilMs, timeline.nowMs + offMs);
  timeline.after(offMs, start);
}
