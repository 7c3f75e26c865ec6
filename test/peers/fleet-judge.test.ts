/** The judge of the fleet under faults, on planted violations. */
import t from 'tap';
import type { Try } from '../support/fleet-load.js';
import type { SunkMessage } from './fleet.js';
import { type Evidence, faultsOfTelling, type Trouble } from './fleet-judge.js';

const SECOND_MS = 1000;
const HEARTBEAT_S = 10;

type Lines = Evidence['instances'][number];
const A: Lines = { name: 'a', url: 'http://a', lines: [] };
const B: Lines = { name: 'b', url: 'http://b', lines: [] };
const beat = (atS: number, { state = 'running' as Try['state'], url = A.url, isOk = true } = {}): Try => {
  return { url, state, sentMs: atS * SECOND_MS, okMs: isOk ? atS * SECOND_MS + 5 : null };
};
/** Heartbeats from one moment to another, all answered. */
const beats = (fromS: number, toS: number, url?: string): Try[] =>
  Array.from({ length: Math.floor((toS - fromS) / HEARTBEAT_S) + 1 }, (_, n) =>
    beat(fromS + n * HEARTBEAT_S, { url }),
  );
const unheard = (...atS: number[]) => atS.map((at) => beat(at, { isOk: false }));
const goodbye = (atS: number, given = {}) => beat(atS, { state: 'stopping', ...given });
const said = (text: string, atS: number, instance = 'a', id = `${instance} ${text} ${atS}`): SunkMessage => {
  return { instance, id, destination: '+12025550100', device: 'pump-1', text, atMs: atS * SECOND_MS };
};
const trouble = (what: string, instance: string | null, fromS: number, toS: number): Trouble => {
  return { what, instance, fromMs: fromS * SECOND_MS, toMs: toS * SECOND_MS };
};
const logged = ({ name, url }: Lines, text: string, atS: number): Lines => {
  return { name, url, lines: [{ atMs: atS * SECOND_MS, text }] };
};

function judge({ tries, ...given }: Partial<Evidence> & { readonly tries: readonly Try[] }) {
  return faultsOfTelling({
    ...{ devices: [{ id: 'pump-1', tries: [...tries] }], troubles: [], messages: [], instances: [A, B] },
    ...{ delayMs: 30 * SECOND_MS, stopDelayMs: 90 * SECOND_MS },
    ...given,
  });
}

const offline = (atS: number, instance?: string) =>
  said('pump-1 is offline. Last signal: 1 May', atS, instance);
const back = (atS: number, instance?: string) => said('pump-1 is back online, since 1 May', atS, instance);
const down = (atS: number) => said('pump-1 is still shut down, since 1 May', atS);

for (const [name, given] of Object.entries({
  'a silence': { tries: beats(0, 100), messages: [offline(130)] },
  'a return': { tries: [...beats(0, 100), ...beats(140, 200)], messages: [offline(130), back(141)] },
  'a stop': { tries: [...beats(0, 100), goodbye(101)], messages: [down(191)] },
  'a goodbye that was heard, but not answered': {
    tries: [...beats(0, 100), goodbye(101, { isOk: false })],
    messages: [down(191)],
  },
  'a goodbye that was not heard': {
    tries: [...beats(0, 100), goodbye(101, { isOk: false })],
    messages: [offline(130)],
  },
  'a goodbye that was lost': {
    tries: [...beats(0, 100), goodbye(101)],
    messages: [offline(130)],
    troubles: [trouble('kill', 'a', 101.5, 120)],
  },
  'a goodbye that was lost with the memory of an instance, after a time without a quorum': {
    tries: [...beats(0, 100), goodbye(101)],
    messages: [offline(130)],
    troubles: [trouble('no quorum', null, 95, 120), trouble('kill', 'a', 122, 140)],
  },
  'a device that could not be heard': {
    tries: [...beats(0, 20), ...unheard(30, 40, 45), ...beats(50, 100)],
    messages: [offline(50.5), back(51)],
  },
  'a device whose answered heartbeats were lost': {
    tries: [...beats(0, 20), beat(30, { url: B.url }), ...unheard(40), ...beats(50, 100)],
    messages: [offline(50.5), back(51)],
    troubles: [trouble('pause', 'b', 31, 49)],
  },
  'a return that was not answered': {
    tries: [...beats(0, 100), ...unheard(140)],
    messages: [offline(130), back(141)],
  },
  'a return of which an instance reads after its pause, when the device has given it up': {
    tries: [...beats(0, 100), ...unheard(112)],
    messages: [offline(130), back(135)],
    troubles: [trouble('pause', 'a', 105, 134)],
  },
  'a decision of an instance that was paused in it': {
    tries: [...beats(0, 20), ...unheard(30, 40, 45), ...beats(50, 100)],
    instances: [logged(A, ' device offline device=pump-1 stopped=false', 90), B],
    troubles: [trouble('pause', 'a', 49, 89)],
  },
  'twice, by a teller that was killed': {
    tries: beats(0, 100),
    messages: [offline(130, 'a'), offline(145, 'b')],
    troubles: [trouble('kill', 'a', 131, 160)],
  },
  'late, but accepted in order': {
    tries: [...beats(0, 100), ...beats(140, 200)],
    messages: [back(141, 'b'), { ...offline(150), id: 'a m1' }],
    instances: [logged(A, 'info  notified device=pump-1 kind=silent unreachable=0 ids=m0,m1', 130), B],
  },
}))
  t.test(`right: ${name}`, async (t) => {
    t.strictSame(judge(given).faults, []);
  });

for (const [name, given] of Object.entries({
  'told of a device that spoke': { tries: beats(0, 200), messages: [offline(130)] },
  'told too early': { tries: beats(0, 100), messages: [offline(129)] },
  'told of a stop too early': { tries: [...beats(0, 100), goodbye(101)], messages: [down(190)] },
  'told of silence in place of a stop': {
    tries: [...beats(0, 100), goodbye(101)],
    messages: [offline(195)],
  },
  'a goodbye that was lost in a stop': {
    tries: [...beats(0, 100), goodbye(101)],
    messages: [offline(130)],
    troubles: [trouble('stop', 'a', 101.5, 120)],
  },
  'a goodbye that was lost in a stop after a time without a quorum': {
    tries: [...beats(0, 100), goodbye(101)],
    messages: [offline(130)],
    troubles: [trouble('no quorum', null, 95, 120), trouble('stop', 'a', 120, 140)],
  },
  'a goodbye that was lost in a kill long after a time without a quorum': {
    tries: [...beats(0, 100), goodbye(101)],
    messages: [offline(150)],
    troubles: [trouble('no quorum', null, 95, 120), trouble('kill', 'a', 131, 140)],
  },
  'told of a stop in place of silence': { tries: beats(0, 100), messages: [down(195)] },
  'told of a return that was none': { tries: beats(0, 100), messages: [offline(130), back(140)] },
  'a decision that nobody hears of': {
    tries: beats(0, 10),
    instances: [logged(A, ' device offline device=pump-1 stopped=false', 9)],
  },
  'a decision long after the device was heard again': {
    tries: [...beats(0, 20), ...unheard(30, 40, 45), ...beats(50, 300)],
    messages: [offline(50.5), back(51)],
    instances: [logged(A, ' device offline device=pump-1 stopped=false', 200), B],
  },
  'what an instance without a fault has answered': {
    tries: [...beats(0, 20), ...beats(30, 100, B.url)],
    messages: [offline(50.5), back(51)],
    troubles: [trouble('pause', 'a', 31, 49)],
  },
  'an instance had its fault earlier': {
    tries: [...beats(0, 20), beat(30, { url: B.url }), ...unheard(40), ...beats(50, 100)],
    messages: [offline(50.5), back(51)],
    troubles: [trouble('pause', 'b', 10, 29)],
  },
  'twice for no reason': { tries: beats(0, 100), messages: [offline(130, 'a'), offline(145, 'b')] },
  'twice, and another had a fault': {
    tries: beats(0, 100),
    messages: [offline(130, 'a'), offline(145, 'b')],
    troubles: [trouble('kill', 'b', 131, 140), trouble('member killed', null, 131, 140)],
  },
  'twice, after the fault': {
    tries: beats(0, 100),
    messages: [offline(130, 'a'), offline(145, 'b')],
    troubles: [trouble('kill', 'a', 100, 120)],
  },
  'a return of which another instance could have read after its pause': {
    tries: [...beats(0, 100), ...unheard(112)],
    messages: [offline(130), back(135)],
    troubles: [trouble('pause', 'b', 105, 134)],
  },
  'a return by a request that its instance answered with an error before its pause': {
    tries: [...beats(0, 100), ...unheard(112)],
    messages: [offline(130), back(135)],
    troubles: [trouble('pause', 'a', 123, 134)],
  },
  'a return without a silence': {
    tries: [...beats(0, 100), ...beats(140, 200)],
    messages: [back(141)],
  },
}))
  t.test(`wrong: ${name}`, async (t) => {
    t.not(judge(given).faults.length, 0);
  });
