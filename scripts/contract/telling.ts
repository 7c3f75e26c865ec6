/**
 * The points about the calls of telling people, which a cloud need not have. Nobody is told: the document is empty then.
 */
import {
  type Answer,
  Broken,
  type Cloud,
  expectObject,
  expectProblem,
  expectService,
  expectStatus,
  NotChecked,
  type Point,
} from './cloud.js';

const QUIET_MS = 7_200_000;
const DAY_MS = 86_400_000;
/** How far the time of the cloud's answer may be from its own serverTime. */
const SLACK_MS = 600_000;

/** Makes a call of a device that nobody is told of. Throws NotChecked at a cloud that does not have it. */
async function asked(cloud: Cloud, method: string, path: string, body: object): Promise<Answer> {
  await cloud.replace({ destinations: [] });
  // A drill needs a device that has called.
  const { status, json } = await cloud.heartbeat();
  if (status !== 200 || json === null) throw new NotChecked('it takes a heartbeat first, and none is taken');
  const answer = await cloud.call(method, path, { body });
  expectService(answer, `no ${path}`);
  if ([404, 405].includes(answer.status)) throw new NotChecked(`it has no call ${path} (${answer.status})`);
  return answer;
}

const makeQuiet = (cloud: Cloud, body: object) => asked(cloud, 'PUT', 'quiet', body);

export const TELLING_POINTS: readonly Point[] = [
  {
    name: 'PUT quiet is answered 200 with until, when people are told again',
    why: 'whoever works on a device must know how long nobody is called',
    async check(cloud) {
      const { serverTime } = (await cloud.heartbeat()).json ?? {};
      const answer = await makeQuiet(cloud, { quietMs: QUIET_MS, why: 'Fieldpost conformance' });
      await makeQuiet(cloud, { quietMs: 0 });
      expectStatus(answer, 200);
      const { until } = expectObject(answer);
      const endsMs = typeof until === 'string' ? Date.parse(until) : Number.NaN;
      const nowMs = typeof serverTime === 'string' ? Date.parse(serverTime) : endsMs - QUIET_MS;
      if (Math.abs(endsMs - nowMs - QUIET_MS) <= SLACK_MS) return;
      throw new Broken(`until is ${JSON.stringify(until)}, serverTime ${serverTime}, and 2 h were asked for`);
    },
  },
  {
    name: 'PUT quiet with quietMs 0 ends it: until is null',
    why: 'an outage after the work would be told to nobody',
    async check(cloud) {
      expectStatus(await makeQuiet(cloud, { quietMs: QUIET_MS }), 200);
      const answer = await makeQuiet(cloud, { quietMs: 0 });
      expectStatus(answer, 200);
      const { until } = expectObject(answer);
      if (until !== null) throw new Broken(`until is ${JSON.stringify(until)}`);
    },
  },
  {
    name: 'PUT quiet for more than 7 days, or for no number, is refused with 400 or 422, and a problem that says why',
    why: 'a device that is quiet for good is a device that nobody watches',
    async check(cloud) {
      for (const quietMs of [7 * DAY_MS + 1, -1, '2h']) {
        const answer = await makeQuiet(cloud, { quietMs });
        await makeQuiet(cloud, { quietMs: 0 });
        expectStatus(answer, 400, 422);
        expectProblem(answer);
      }
    },
  },
  {
    name: 'POST drill is answered 202 with the number of people who are called',
    why: 'whoever starts a drill must know how many answers to wait for',
    async check(cloud) {
      const answer = await asked(cloud, 'POST', 'drill', {});
      expectStatus(answer, 202);
      const { people } = expectObject(answer);
      if (people !== 0) throw new Broken(`people is ${JSON.stringify(people)}, and the document is empty`);
    },
  },
];
