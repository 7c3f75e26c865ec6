/**
 * The points about heartbeats and keys.
 */
import {
  Broken,
  type Cloud,
  expectObject,
  expectStatus,
  expectStrong,
  NotChecked,
  type Point,
} from './cloud.js';

// RFC 3339.
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/** Members by which a device says what people are to hear. */
const SAID: readonly object[] = [
  { quietMs: 60_000, why: 'Fieldpost conformance' },
  { last: 'Fieldpost conformance: nothing to do' },
  { late: ['conformance'] },
];
const MISSAID: readonly object[] = [
  ...[-1, 0.5, 1e12, '2h', null].map((quietMs) => ({ quietMs })),
  { quietMs: 60_000, why: 7 },
  ...['', 7, 'x'.repeat(1000)].map((last) => ({ last })),
  ...['conformance', [7]].map((late) => ({ late })),
];

/** Sends each of these with a heartbeat while nobody would be told. Throws Broken unless each is answered 200. */
async function expectSayable(cloud: Cloud, sayings: readonly object[]): Promise<void> {
  await cloud.replace({ destinations: [] });
  for (const said of sayings) {
    const { status } = await cloud.heartbeat({ ...said });
    if (status !== 200)
      throw new Broken(`${JSON.stringify(said).slice(0, 60)} was answered ${status}, not 200`);
  }
  await cloud.heartbeat({ quietMs: 0 });
}

/** Throws Broken if a caller without the right key may make the device quiet, or start a drill. */
async function expectNoTelling(cloud: Cloud, key?: string | null): Promise<void> {
  for (const [method, path, body] of [
    ['PUT', 'quiet', { quietMs: 0 }],
    ['POST', 'drill', {}],
  ] as const) {
    const answer = await cloud.call(method, path, { body, ...(key !== undefined && { key }) });
    // A cloud need not have these calls.
    expectStatus(answer, 401, 403, 404, 405, 501);
  }
}

export const HEARTBEAT_POINTS: readonly Point[] = [
  {
    name: 'a heartbeat is answered 200 with a JSON object',
    why: 'anything else is a failed call, and the device counts itself as offline',
    async check(cloud) {
      const answer = await cloud.heartbeat();
      expectStatus(answer, 200);
      expectObject(answer);
    },
  },
  {
    name: 'members of a heartbeat that the cloud does not know do not matter',
    why: 'a newer device would be offline at an older cloud',
    async check(cloud) {
      expectStatus(await cloud.heartbeat({ conformance: { nested: [1] } }), 200);
    },
  },
  {
    name: 'a heartbeat may say that the device is stopping',
    why: 'a planned stop is not to alarm anybody',
    async check(cloud) {
      const answer = await cloud.heartbeat({ state: 'stopping' });
      await cloud.heartbeat();
      expectStatus(answer, 200);
      expectObject(answer);
    },
  },
  {
    name: 'a heartbeat may say that the device has moved',
    why: 'the people of a device that goes to another cloud would be told that it is offline',
    async check(cloud) {
      const answer = await cloud.heartbeat({ state: 'moved' });
      await cloud.heartbeat();
      expectStatus(answer, 200);
      expectObject(answer);
    },
  },
  {
    name: 'quietMs with why, last and late of a heartbeat do not matter to a cloud that does not know them',
    why: 'a device that is quiet, or has a last word, would be offline at this cloud',
    check: (cloud) => expectSayable(cloud, SAID),
  },
  {
    name: 'values of these members that the cloud cannot use do not matter either',
    why: 'one wrong wish would keep all heartbeats from the cloud, and people would hear of an outage',
    check: (cloud) => expectSayable(cloud, MISSAID),
  },
  {
    name: 'heartbeatMs is a number of milliseconds, serverTime a moment with its zone',
    why: 'the device takes its pace, and trust in its own clock, from them',
    async check(cloud) {
      const { heartbeatMs, serverTime } = expectObject(await cloud.heartbeat());
      if (heartbeatMs !== undefined && !(typeof heartbeatMs === 'number' && heartbeatMs > 0)) {
        throw new Broken(`heartbeatMs is ${JSON.stringify(heartbeatMs)}`);
      }
      if (serverTime === undefined) return;
      const isMoment = typeof serverTime === 'string' && MOMENT.test(serverTime);
      if (!isMoment || Number.isNaN(Date.parse(serverTime))) {
        throw new Broken(`serverTime is ${JSON.stringify(serverTime)}, not like 2026-11-20T09:00:00Z`);
      }
    },
  },
  {
    name: 'zone, if the answer has it, is the name of a time zone',
    why: 'the device reads the hours of its people in it',
    async check(cloud) {
      const { zone } = expectObject(await cloud.heartbeat());
      if (zone === undefined) return;
      try {
        if (typeof zone !== 'string') throw new RangeError('no text');
        new Intl.DateTimeFormat('en', { timeZone: zone });
      } catch {
        throw new Broken(`zone is ${JSON.stringify(zone)}, not like Europe/Amsterdam`);
      }
    },
  },
  {
    name: 'a heartbeat’s destinations is the document’s ETag, to the letter, quotes included',
    why: 'the device fetches the document when it is another, and would do so every time or never',
    async check(cloud) {
      for (const note of ['one', 'two']) {
        const etag = await cloud.replace({ destinations: [], note });
        const { destinations } = expectObject(await cloud.heartbeat());
        if (destinations === undefined) {
          throw new NotChecked('the answers do not tell it; devices see edits only when they come online');
        }
        if (expectStrong(destinations) !== etag)
          throw new Broken(`it is ${destinations}, the ETag is ${etag}`);
      }
    },
  },
  {
    name: 'without the device’s key every call is refused with 401 or 403, and changes nothing',
    why: 'anybody could edit who is told, or send messages in the device’s name',
    async check(cloud) {
      const { etag, text } = await cloud.present();
      for (const key of [null, 'conformance-wrong-key']) {
        expectStatus(await cloud.heartbeat({}, key), 401, 403);
        expectStatus(await cloud.call('GET', 'destinations', { key }), 401, 403);
        const body = { destinations: [], note: 'from a stranger' };
        expectStatus(
          await cloud.call('PUT', 'destinations', { key, body, headers: { 'If-Match': etag } }),
          401,
          403,
        );
        expectStatus(await cloud.call('POST', 'messages', { key, body: {} }), 401, 403);
        await expectNoTelling(cloud, key);
      }
      if ((await cloud.present()).text !== text)
        throw new Broken('a PUT with a wrong key changed the document');
    },
  },
  {
    name: 'a device’s key opens no other device',
    why: 'whoever has one device in hand could edit who is told of all others',
    async check(cloud) {
      const { stranger } = cloud;
      for (const answer of [await stranger.heartbeat(), await stranger.get()]) {
        // A cloud need not say whether there is such a device.
        expectStatus(answer, 401, 403, 404);
      }
      expectStatus(await stranger.call('POST', 'messages', { body: {} }), 401, 403, 404);
      await expectNoTelling(stranger);
    },
  },
];
