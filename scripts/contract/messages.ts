/**
 * The points about messages. A few SMS go to +1 202 555 0199, a number that is kept free for fiction.
 */
import { randomUUID } from 'node:crypto';
import { Broken, type Cloud, expectObject, expectProblem, expectStatus, NotChecked } from './cloud.js';
import type { Point } from './point.js';

const SMS = { type: 2, destination: '+12025550199', message: 'Fieldpost conformance: nothing to do' };

/** Hands over a message of its own; gives its id. Throws NotChecked if it is not taken. */
async function taken(cloud: Cloud): Promise<string> {
  const id = randomUUID();
  const { status } = await cloud.message({ ...SMS, id }, id);
  if (status < 200 || status > 299) throw new NotChecked(`no message is taken (${status})`);
  return id;
}

function expectTaken(answer: Parameters<typeof expectStatus>[0], id: string): void {
  if (answer.status < 200 || answer.status > 299)
    throw new Broken(`it was answered ${answer.status}, not 2xx`);
  const told = expectObject(answer).id;
  if (told !== id) throw new Broken(`the answer’s id is ${JSON.stringify(told)}, the message’s is "${id}"`);
}

export const MESSAGE_POINTS: readonly Point[] = [
  {
    name: 'a message that is taken is answered 2xx with its id',
    why: 'only that proves to the device that it was this cloud which took it',
    async check(cloud) {
      const id = randomUUID();
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
      const other = randomUUID();
      const answer = await cloud.message({ ...SMS, id: other }, id);
      const isTaken = answer.status >= 200 && answer.status < 300;
      if (isTaken && answer.json?.id === other) throw new Broken('it was taken under its own id');
    },
  },
  {
    name: 'a message that can never be sent is refused with 400, 413, 415 or 422, and a problem that says why',
    why: 'with any other answer the device offers it until it is too old, and nobody learns why',
    async check(cloud) {
      const id = randomUUID();
      const answer = await cloud.message({ ...SMS, id, destination: 'no number' }, id);
      expectStatus(answer, 400, 413, 415, 422);
      expectProblem(answer);
    },
  },
  {
    name: 'members of a message that the cloud does not know do not matter',
    why: 'a newer device’s messages would be refused by an older cloud',
    async check(cloud) {
      await taken(cloud);
      const id = randomUUID();
      expectTaken(await cloud.message({ ...SMS, id, conformance: true }, id), id);
    },
  },
];
