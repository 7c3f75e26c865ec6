/**
 * The points about messages. Some SMS and a call go to +1 202 555 0199, a number that is kept free for fiction.
 */
import {
  type Answer,
  Broken,
  type Cloud,
  expectAccepted,
  expectProblem,
  expectService,
  expectStatus,
  isAccepted,
  NotChecked,
  newId,
  type Point,
} from './cloud.js';

const SMS = { type: 2, destination: '+12025550199', message: 'Fieldpost conformance: nothing to do' };

/** Hands over a message of its own; gives its id. Throws NotChecked if it is not taken. */
async function taken(cloud: Cloud, id = newId()): Promise<string> {
  const answer = await cloud.message({ ...SMS, id }, id);
  expectService(answer, 'no messages');
  if (!isAccepted(answer)) throw new NotChecked(`no message is taken (${answer.status})`);
  return id;
}

/** Throws Broken unless the message was taken, NotChecked where the cloud says that it takes none such. */
function expectTaken(answer: Answer, id: string, what = 'no messages'): void {
  expectService(answer, what);
  expectAccepted(answer, id, 'message');
}

/** Another text under the id and key of a message that was taken. */
function forged(cloud: Cloud, id: string): Promise<Answer> {
  return cloud.message({ ...SMS, message: `${SMS.message}, again`, id }, id);
}

/** A message that was taken, at a cloud that shows by a refusal that it remembers it. Throws NotChecked at others. */
async function remembered(cloud: Cloud): Promise<string> {
  const id = await taken(cloud);
  if (isAccepted(await forged(cloud, id))) {
    throw new NotChecked('another text under the same key is not refused, so that its answers do not tell');
  }
  return id;
}

export const MESSAGE_POINTS: readonly Point[] = [
  {
    name: 'a message that is taken is answered 2xx with its id',
    why: 'only that proves to the device that it was this cloud which took it',
    async check(cloud) {
      const id = newId();
      expectTaken(await cloud.message({ ...SMS, id }, id), id);
    },
  },
  {
    name: 'the same message again, with the same Idempotency-Key, is answered as the first',
    why: 'a device whose answer was lost asks again until it has one',
    async check(cloud) {
      const id = await taken(cloud);
      expectTaken(await cloud.message({ ...SMS, id }, id), id);
    },
  },
  {
    name: 'another message under a key that was used is not taken for a new one',
    why: 'a cloud that does not look at the key sends twice whatever a device must offer twice',
    async check(cloud) {
      const id = await taken(cloud);
      const other = newId();
      const answer = await cloud.message({ ...SMS, id: other }, id);
      if (isAccepted(answer) && answer.json?.id === other) throw new Broken('it was taken under its own id');
    },
  },
  {
    name: 'another text under the key of a message that was taken is refused',
    why: 'a cloud that forgets keys sends twice; one that answers as to the first loses the second text untold',
    async check(cloud) {
      if (isAccepted(await forged(cloud, await taken(cloud)))) throw new Broken('it was taken');
    },
  },
  {
    name: 'a message that can never be sent is refused with 400, 413, 415 or 422, and a problem that says why',
    why: 'with any other answer the device offers it until it is too old, and nobody learns why',
    async check(cloud) {
      const id = newId();
      const answer = await cloud.message({ ...SMS, id, destination: 'no number' }, id);
      expectService(answer, 'no messages');
      expectStatus(answer, 400, 413, 415, 422);
      expectProblem(answer);
    },
  },
  {
    name: 'members of a message that the cloud does not know do not matter',
    why: 'a newer device’s messages would be refused by an older cloud',
    async check(cloud) {
      await taken(cloud);
      const id = newId();
      expectTaken(await cloud.message({ ...SMS, id, conformance: true }, id), id);
    },
  },
  {
    name: 'phone calls and push messages are taken, or it is said that they are not',
    why: 'a refusal looks as if the one message was wrong, and the device gives it up',
    async check(cloud) {
      await taken(cloud);
      const push = { title: 'Conformance', auto_open: false, app_data: { pump: [3] } };
      const others = [
        { ...SMS, type: 3 },
        { ...SMS, type: 4, destination: 'CONFORMANCE', ...push },
      ];
      for (const message of others) {
        const id = newId();
        expectTaken(await cloud.message({ ...message, id }, id), id, `no messages of type ${message.type}`);
      }
    },
  },
  {
    name: 'a message of 60,000 bytes is taken',
    why: 'a device may send so much; a 413 is a refusal for good',
    async check(cloud) {
      await taken(cloud);
      const id = newId();
      expectTaken(await cloud.message({ ...SMS, id, conformance: 'x'.repeat(59_000) }, id), id);
    },
  },
  {
    name: 'of a message that comes twice at once only one is taken for a new one',
    why: 'to look for the key and to keep it must be one step, or people are called twice',
    async check(cloud) {
      await remembered(cloud);
      for (let round = 0; round < cloud.rounds; round++) {
        const id = newId();
        const both = await Promise.all([cloud.message({ ...SMS, id }, id), forged(cloud, id)]);
        if (both.every(isAccepted)) throw new Broken('both were taken, with different texts');
      }
    },
  },
  {
    name: 'a message is remembered while others come',
    why: 'a device that was offline for days asks again with the same key; keep keys for seven days',
    async check(cloud) {
      const id = await remembered(cloud);
      for (let round = 0; round < 2 * cloud.rounds; round++) await taken(cloud);
      if (isAccepted(await forged(cloud, id)))
        throw new Broken('its key was forgotten, and another text taken under it');
    },
  },
  {
    name: 'each device has keys of its own',
    why: 'two devices may draw the same id, and the message of the second would be lost',
    async check(cloud) {
      const { other } = cloud;
      const id = await remembered(cloud);
      expectTaken(await forged(other, id), id);
    },
  },
];
