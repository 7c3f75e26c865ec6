/**
 * The points about mails, which a cloud need not take. They go to addresses of example.com, which takes no mail (RFC 2606).
 */
import {
  type Answer,
  type Cloud,
  expectAccepted,
  expectProblem,
  expectService,
  expectStatus,
  NotChecked,
  newId,
  type Point,
} from './cloud.js';

const TO = ['conformance+1@example.com'];
const MAIL = [
  'From: Conformance <conformance@example.com>',
  'To: <conformance+1@example.com>',
  'Subject: Fieldpost conformance: nothing to do',
  'Date: Fri, 20 Nov 2026 09:00:00 +0000',
  '',
  'Nothing to do.',
  '',
].join('\r\n');

/** Throws NotChecked at a cloud that takes no mails. */
function expectMails(answer: Answer): void {
  expectService(answer, 'no mails');
  if (answer.status === 404 || answer.status === 405)
    throw new NotChecked(
      `it has no call for mails (${answer.status}); a 501 would tell devices that it takes none`,
    );
}

/** Throws Broken unless the mail was taken, NotChecked where the cloud says that it takes none. */
function expectTaken(answer: Answer, id: string): void {
  expectMails(answer);
  expectAccepted(answer, id, 'mail');
}

/** Hands over a mail of its own. Throws NotChecked if it is not taken. */
async function taken(cloud: Cloud): Promise<string> {
  const id = newId();
  const answer = await cloud.mail(MAIL, TO, id);
  expectMails(answer);
  if (answer.status > 299) throw new NotChecked(`no mail is taken (${answer.status})`);
  return id;
}

export const MAIL_POINTS: readonly Point[] = [
  {
    name: 'a mail that is taken is answered 2xx with its id',
    why: 'only that proves to the device that it was this cloud which took it',
    async check(cloud) {
      const id = newId();
      expectTaken(await cloud.mail(MAIL, TO, id), id);
    },
  },
  {
    name: 'the same mail again is answered as the first, also when it says that it has waited',
    why: 'a device whose answer was lost offers it until it has one, and the header of its wait grows',
    async check(cloud) {
      const id = await taken(cloud);
      expectTaken(await cloud.mail(`X-Fieldpost-Waited: PT2H\r\n${MAIL}`, TO, id), id);
    },
  },
  {
    name: 'a mail without recipient and content is refused with 400 or 422, and a problem that says why',
    why: 'so a device tries whether the cloud takes mails',
    async check(cloud) {
      const answer = await cloud.mail('', [], newId());
      expectMails(answer);
      expectStatus(answer, 400, 422);
      expectProblem(answer);
    },
  },
  {
    name: 'a mail to what is no address is refused with 400 or 422, and a problem that says why',
    why: 'with any other answer the device offers it until it is too old, and nobody learns why',
    async check(cloud) {
      const answer = await cloud.mail(MAIL, ['no address'], newId());
      expectMails(answer);
      expectStatus(answer, 400, 422);
      expectProblem(answer);
    },
  },
];
