/** The judge of the fleet under faults, on planted violations. */
import t from 'tap';
import type { LoadDevice } from '../support/fleet-load.js';
import type { Instance, SunkMessage } from './fleet.js';
import { type Evidence, faultsOfTelling, type Silence, type Trouble } from './fleet-judge.js';

const SECOND_MS = 1000;

const device = (id: string, gapMs = 0) => ({ id, gapMs }) as LoadDevice;
const said = (text: string, atS: number, instance = 'a', id = `${instance} ${text} ${atS}`): SunkMessage => {
  return { instance, id, destination: '+12025550100', device: 'pump-1', text, atMs: atS * SECOND_MS };
};
const silence = (fromS: number, untilS: number | null = null): Silence => {
  const fromMs = fromS * SECOND_MS;
  const untilMs = untilS === null ? null : untilS * SECOND_MS;
  return { id: 'pump-1', fromMs, okMs: fromMs, said: 'nothing', untilMs };
};
const stopped = (fromS: number): Silence => ({ ...silence(fromS), said: 'stopping' });
const trouble = (instance: string | null, fromS: number, toS: number): Trouble => {
  return { what: 'kill', instance, fromMs: fromS * SECOND_MS, toMs: toS * SECOND_MS };
};
const logged = (name: string, text: string, atS: number) =>
  ({ name, lines: [{ atMs: atS * SECOND_MS, text }] }) as unknown as Instance;

function judge(given: Partial<Evidence>) {
  return faultsOfTelling({
    ...{ devices: [device('pump-1')], silences: [], troubles: [], messages: [], instances: [] },
    ...{ patienceMs: 20 * SECOND_MS, stopPatienceMs: 90 * SECOND_MS },
    ...given,
  });
}

const offline = (atS: number, instance?: string) =>
  said('pump-1 is offline. Last signal: 1 May', atS, instance);
const back = (atS: number, instance?: string) => said('pump-1 is back online, since 1 May', atS, instance);
const down = (atS: number) => said('pump-1 is still shut down, since 1 May', atS);

t.test('what is right', async (t) => {
  for (const [name, given] of Object.entries({
    'a silence': { silences: [silence(100)], messages: [offline(130)] },
    'a return': { silences: [silence(100, 140)], messages: [offline(130), back(141)] },
    'a stop': { silences: [stopped(100)], messages: [down(191)] },
    'a device that could not be heard': {
      devices: [device('pump-1', 25_000)],
      messages: [offline(50), back(60)],
    },
    'twice, by a teller that was killed': {
      silences: [silence(100)],
      messages: [offline(130, 'a'), offline(145, 'b')],
      troubles: [trouble('a', 131, 160)],
    },
    'late, but accepted in order': {
      silences: [silence(100, 140)],
      messages: [back(141, 'b'), { ...offline(150), id: 'a m1' }],
      instances: [logged('a', 'info  notified device=pump-1 kind=silent unreachable=0 ids=m0,m1', 130)],
    },
  })) {
    t.strictSame(judge(given).faults, [], name);
  }
});

t.test('what is wrong', async (t) => {
  for (const [name, given] of Object.entries({
    'told of a device that spoke': { messages: [offline(130)] },
    'told too early': { silences: [silence(100)], messages: [offline(119)] },
    'told of a stop too early': { silences: [stopped(100)], messages: [down(150)] },
    'told of silence in place of a stop': { silences: [stopped(100)], messages: [offline(195)] },
    'told of a return that was none': { silences: [silence(100)], messages: [offline(130), back(140)] },
    'a decision that nobody hears of': {
      instances: [logged('a', ' device offline device=pump-1 stopped=false', 9)],
    },
    'twice for no reason': { silences: [silence(100)], messages: [offline(130, 'a'), offline(145, 'b')] },
    'twice, and another had a fault': {
      silences: [silence(100)],
      messages: [offline(130, 'a'), offline(145, 'b')],
      troubles: [trouble('b', 131, 140), trouble(null, 131, 140)],
    },
    'twice, after the fault': {
      silences: [silence(100)],
      messages: [offline(130, 'a'), offline(145, 'b')],
      troubles: [trouble('a', 100, 120)],
    },
    'a return without a silence': { silences: [silence(100, 140)], messages: [back(141)] },
  })) {
    t.not(judge(given).faults.length, 0, name);
  }
});
