/** The watch of several instances over one etcd: who is told what, and when roles move. */
import t from 'tap';
import { FLEET_STALE_MS, MINUTE_MS, SECOND_MS } from '../../src/limits.js';
import { DELAYS, FleetWorld } from '../support/fleet-world.js';
import { testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

/** Three instances that have shared the roles, and devices that speak. */
async function fleetOf(devices: number): Promise<FleetWorld> {
  const world = new FleetWorld(seed);
  for (const machine of ['a', 'b', 'c']) await world.start(machine);
  for (let n = 0; n < devices; n++) world.add(`pump-${n}`);
  await world.clock.advance(FLEET_STALE_MS + MINUTE_MS);
  return world;
}

t.test('a silent device is told once, and once that it is back', async (t) => {
  const world = await fleetOf(20);
  world.devices.get('pump-3')?.silence();
  await world.clock.advance(DELAYS.delayMs + 45 * SECOND_MS);
  t.strictSame(
    world.told.map(({ device, kind }) => [device, kind]),
    [['pump-3', 'silent']],
  );
  world.devices.get('pump-3')?.speak();
  await world.clock.advance(MINUTE_MS);
  t.strictSame(world.toldOf('pump-3'), ['silent', 'back']);
  t.equal(world.told.length, 2);
});
