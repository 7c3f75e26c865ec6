/**
 * The points about the destinations document.
 */
import {
  Broken,
  type Cloud,
  expectObject,
  expectProblem,
  expectStatus,
  expectStrong,
  NotChecked,
  type Point,
} from './cloud.js';

const entry = (n: number, more: object = {}) => ({
  uid: `0c0f3a3e-0000-4000-8000-00000000000${n}`,
  type: 1,
  destination: `conformance-${n}@example.com`,
  lang: 'en',
  name: `Conformance ${n}`,
  ...more,
});

/** Puts an entry with these members, and throws Broken if one of them comes back as anything else. */
async function expectKept(cloud: Cloud, more: Readonly<Record<string, unknown>>): Promise<void> {
  const { etag } = await cloud.present();
  const put = await cloud.put({ destinations: [entry(1, more)] }, { 'If-Match': etag });
  expectStatus(put, 200, 204);
  const [found] = (await cloud.present()).document.destinations as [Record<string, unknown>?];
  for (const [member, value] of Object.entries(more)) {
    if (found?.[member] === value) continue;
    throw new Broken(`${member} was ${shown(value)} and came back as ${shown(found?.[member])}`);
  }
}

/** What people set for a person, as rules of telling, and for the device. */
const RULES = {
  after_min: 60,
  hours: 'Mo-Fr 07:00-18:00, Sa 09:00-12:00',
  zone: 'Europe/Amsterdam',
  night: 'drop',
  weekly: true,
  confirmedAt: '2026-11-20T09:00:00.000Z',
};
const NO_RULES = { after_min: -1, hours: 'always', zone: 'Mars/Olympus', night: 7, weekly: 'yes' };
const OF_DEVICE = { delay: '26h', site: 'Conformance', tags: ['conformance', 'north'] };

/** In ASCII, so that what looks alike can be told apart. */
function shown(value: unknown): string {
  const code = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return (JSON.stringify(value) ?? 'nothing').replace(/[^\x20-\x7e]/g, code);
}

const SAME = 'the device says that both sides agree, while they differ, or sends its own again and again';
const KEPT: readonly (readonly [what: string, more: Readonly<Record<string, unknown>>])[] = [
  ['capitals in an address', { destination: 'Conformance.Mixed@Example.COM' }],
  ['letters with combining marks', { name: 'Zoe\u0308 e\u0301' }],
  ['blanks at both ends', { name: ' Conformance ' }],
  ['letters beyond latin-1', { name: 'Żółć Łódź Ωμέγα' }],
  ['characters of HTML, URLs and scripts', { name: 'Pump & "1" <b>2</b> &amp; \'3\' \\n %41+{{4}}' }],
  ['characters beyond the BMP', { name: 'Pump \u{1f6a8}\u{20bb7}' }],
];

async function expectFresh(cloud: Cloud): Promise<void> {
  if ((await cloud.get()).status === 200) {
    throw new NotChecked(
      'the device has a document; if it was never used, the cloud makes one up, which is wrong',
    );
  }
}

/** Throws Broken unless the document is still this one. */
async function expectUnchanged(cloud: Cloud, text: string): Promise<void> {
  if ((await cloud.present()).text !== text) throw new Broken('it was refused, but the document was changed');
}

export const DOCUMENT_POINTS: readonly Point[] = [
  {
    name: 'while no document was ever stored, GET is answered 404 with a problem',
    why: 'an empty document instead would delete everybody on the device; a bare 404 may be any proxy’s',
    async check(cloud) {
      await expectFresh(cloud);
      const answer = await cloud.get();
      expectStatus(answer, 404);
      expectProblem(answer);
    },
  },
  {
    name: 'PUT with If-Match is answered 412 while there is no document',
    why: 'a device whose cloud has lost its document must learn that, and not store over a gap',
    async check(cloud) {
      await expectFresh(cloud);
      expectStatus(await cloud.put({ destinations: [] }, { 'If-Match': '"conformance"' }), 412);
      expectStatus(await cloud.get(), 404);
    },
  },
  {
    name: 'the first PUT, with If-None-Match: *, is answered 200 or 204',
    why: 'a device could never hand over its address book',
    async check(cloud) {
      await expectFresh(cloud);
      expectStatus(await cloud.put({ destinations: [entry(1)] }, { 'If-None-Match': '*' }), 200, 204);
    },
  },
  {
    name: 'PUT with If-None-Match: * is answered 412 once there is a document',
    why: 'two that both believe to be the first would overwrite each other',
    async check(cloud) {
      const { text } = await cloud.present();
      expectStatus(await cloud.put({ destinations: [entry(9)] }, { 'If-None-Match': '*' }), 412);
      await expectUnchanged(cloud, text);
    },
  },
  {
    name: 'GET has a strong ETag',
    why: 'with a weak one, or none, two edits cannot be told apart, and one of them is lost',
    async check(cloud) {
      const got = await cloud.get();
      if (got.status !== 200) throw new NotChecked('there is no document');
      expectStrong(got.etag);
    },
  },
  {
    name: 'PUT with the present ETag is answered 200 or 204 with the new, strong ETag',
    why: 'the device would not know which document it agreed on',
    async check(cloud) {
      const { etag } = await cloud.present();
      const answer = await cloud.put({ destinations: [entry(1), entry(2)] }, { 'If-Match': etag });
      expectStatus(answer, 200, 204);
      if (answer.text !== '') expectObject(answer);
      if (expectStrong(answer.etag) === etag) throw new Broken('the ETag is still the old one');
      const got = await cloud.get();
      if (got.etag !== answer.etag) throw new Broken(`PUT said ${answer.etag}, GET says ${got.etag}`);
    },
  },
  {
    name: 'GET gives the entries that were put, each with all five members',
    why: 'the device takes what differs for an edit of somebody else',
    async check(cloud) {
      await cloud.replace({ destinations: [entry(1), entry(2)] });
      const { destinations } = (await cloud.present()).document;
      if (!Array.isArray(destinations)) throw new Broken('destinations is not an array');
      for (const wanted of [entry(1), entry(2)]) {
        const found = destinations.find(({ uid }) => uid === wanted.uid);
        for (const [member, value] of Object.entries(wanted)) {
          if (found?.[member] !== value)
            throw new Broken(`${member} came back as ${JSON.stringify(found?.[member])}`);
        }
      }
      if (destinations.length !== 2) throw new Broken(`${destinations.length} entries came back, not 2`);
    },
  },
  ...KEPT.map(([what, more]) => ({
    name: `${what} are kept as they are`,
    why: SAME,
    check: (cloud: Cloud) => expectKept(cloud, more),
  })),
  {
    name: 'two entries with the same address are kept',
    why: 'the device joins them itself; of two people who share a telephone one would be deleted on the device',
    async check(cloud) {
      const { etag } = await cloud.present();
      const destinations = [entry(1), entry(2, { destination: entry(1).destination })];
      expectStatus(await cloud.put({ destinations }, { 'If-Match': etag }), 200, 204);
      const kept = (await cloud.present()).document.destinations as { uid?: unknown }[];
      if (destinations.every(({ uid }) => kept.some((found) => found.uid === uid))) return;
      throw new Broken(`they came back as ${JSON.stringify(kept)}`);
    },
  },
  {
    name: 'entries of every type and language are taken',
    why: 'one entry that is refused keeps the whole address book from the cloud',
    async check(cloud) {
      const { etag } = await cloud.present();
      const langs = ['nl', 'fr', 'de', 'en', 'it', 'pl', 'es'];
      const destinations = langs.map((lang, n) => {
        const type = (n % 4) + 1;
        const number = `+1202555010${n}`;
        const destination = type === 1 ? `conformance-${n}@example.com` : type === 4 ? 'CONFORMANCE' : number;
        return entry(n, { lang, type, destination });
      });
      expectStatus(await cloud.put({ destinations }, { 'If-Match': etag }), 200, 204);
      const kept = (await cloud.present()).document.destinations as { type?: unknown; lang?: unknown }[];
      const seen = (found: typeof kept) =>
        found
          .map(({ type, lang }) => `${type} ${lang}`)
          .sort()
          .join();
      if (seen(kept) !== seen(destinations)) throw new Broken(`they came back as ${JSON.stringify(kept)}`);
    },
  },
  {
    name: 'an entry that the cloud does not understand is kept',
    why: 'one entry of a newer device, or of another cloud, would keep the whole address book from the cloud',
    async check(cloud) {
      await expectKept(cloud, { type: 9, destination: 'conformance', lang: 'xx', name: 'Unknown' });
    },
  },
  {
    name: 'a document of 500 entries with long names is taken',
    why: 'a device may have so many; beyond the cloud’s own limit no edit would arrive any more',
    async check(cloud) {
      const { etag } = await cloud.present();
      const destinations = Array.from({ length: 500 }, (_, n) => {
        const number = String(n).padStart(3, '0');
        const uid = `0c0f3a3e-0000-4000-8000-000000000${number}`;
        const destination = `conformance-${number}@${'long.'.repeat(30)}example.com`;
        return entry(1, { uid, destination, name: `${number} ${'\u{1f6a8}'.repeat(190)}` });
      });
      expectStatus(await cloud.put({ destinations }, { 'If-Match': etag }), 200, 204);
      const { document } = await cloud.present();
      if (JSON.stringify(document.destinations) !== JSON.stringify(destinations)) {
        throw new Broken('it came back as another');
      }
    },
  },
  {
    name: 'members of an entry that the cloud does not know are kept',
    why: 'an older cloud would delete what newer devices, or its own screen, have stored',
    async check(cloud) {
      await cloud.replace({ destinations: [entry(1, { conformance: { nested: [1, null] } })] });
      const [found] = (await cloud.present()).document.destinations as [Record<string, unknown>?];
      if (JSON.stringify(found?.conformance) !== '{"nested":[1,null]}') {
        throw new Broken(`it came back as ${JSON.stringify(found?.conformance)}`);
      }
    },
  },
  {
    name: 'members of the document that the cloud does not know are kept',
    why: 'as with those of an entry',
    async check(cloud) {
      await cloud.replace({ destinations: [], conformance: ['kept'] });
      const { conformance } = (await cloud.present()).document;
      if (JSON.stringify(conformance) !== '["kept"]') {
        throw new Broken(`it came back as ${JSON.stringify(conformance)}`);
      }
    },
  },
  {
    name: 'after_min, hours, zone, night, weekly and confirmedAt of an entry are kept',
    why: 'a manager who is to hear after an hour would be called at once, or an older rule would come back',
    check: (cloud) => expectKept(cloud, RULES),
  },
  {
    name: 'values of these members that the cloud cannot use are kept, with their entry',
    why: 'one wrong rule would keep the whole address book from the cloud, or silence its person',
    check: (cloud) => expectKept(cloud, NO_RULES),
  },
  {
    name: 'delay, site and tags of the document are kept',
    why: 'the next edit of the device would take from it what people have set on the cloud’s screen',
    async check(cloud) {
      await cloud.replace({ destinations: [], ...OF_DEVICE });
      const { document } = await cloud.present();
      for (const [member, value] of Object.entries(OF_DEVICE)) {
        if (JSON.stringify(document[member]) === JSON.stringify(value)) continue;
        throw new Broken(`${member} was ${shown(value)} and came back as ${shown(document[member])}`);
      }
    },
  },
  {
    name: 'null is kept like any other value, in an entry and in the document',
    why: 'what differs from what was sent looks edited, so that the device sends it again and again',
    async check(cloud) {
      await cloud.replace({ destinations: [entry(1, { conformance: null })], conformance: { nested: null } });
      const { destinations, conformance } = (await cloud.present()).document;
      const [found] = destinations as [Record<string, unknown>?];
      if (found?.conformance !== null)
        throw new Broken(`in the entry it became ${shown(found?.conformance)}`);
      if (JSON.stringify(conformance) === '{"nested":null}') return;
      throw new Broken(`{"nested":null} in the document became ${shown(conformance)}`);
    },
  },
  {
    name: 'GET with If-None-Match is answered 304 without a body if the ETag is the present one, else 200',
    why: 'every look would cost the whole document on a metered link, or edits would never be seen',
    async check(cloud) {
      const { etag } = await cloud.present();
      const same = await cloud.get({ 'If-None-Match': etag });
      expectStatus(same, 304);
      if (same.text !== '') throw new Broken('the 304 has a body');
      expectStatus(await cloud.get({ 'If-None-Match': '"conformance"' }), 200);
    },
  },
  {
    name: 'PUT with another ETag than the present one is answered 412, and changes nothing',
    why: 'a device would overwrite what somebody else has edited meanwhile',
    async check(cloud) {
      const { etag: old } = await cloud.present();
      await cloud.replace({ destinations: [entry(3)] });
      const { text } = await cloud.present();
      expectStatus(await cloud.put({ destinations: [entry(4)] }, { 'If-Match': old }), 412);
      await expectUnchanged(cloud, text);
    },
  },
  {
    name: 'a PUT without If-Match and If-None-Match is refused with 400, 412 or 428, and changes nothing',
    why: 'a writer that forgets the condition would overwrite what others have edited, and never learn it',
    async check(cloud) {
      await cloud.replace({ destinations: [entry(3)] });
      const { text } = await cloud.present();
      expectStatus(await cloud.put({ destinations: [entry(4)] }, {}), 400, 412, 428);
      await expectUnchanged(cloud, text);
    },
  },
  {
    name: 'of several PUTs at the same time with the same ETag exactly one succeeds',
    why: 'to look and to replace must be one step, or an edit is lost now and then',
    async check(cloud) {
      // What is not one step fails only now and then.
      for (let round = 0; round < cloud.rounds; round++) {
        const { etag } = await cloud.present();
        const puts = [5, 6, 7, 8].map((n) => cloud.put({ destinations: [entry(n)] }, { 'If-Match': etag }));
        const statuses = (await Promise.all(puts)).map(({ status }) => status).sort();
        const good = statuses.filter((status) => status === 200 || status === 204).length;
        const lost = statuses.filter((status) => status === 412).length;
        if (good !== 1 || lost !== 3) throw new Broken(`they were answered ${statuses.join(', ')}`);
      }
    },
  },
  {
    name: 'an empty list is a document like any other',
    why: 'with a 404 for it, the deletion of the last entry would be undone',
    async check(cloud) {
      const { etag } = await cloud.present();
      expectStatus(await cloud.put({ destinations: [] }, { 'If-Match': etag }), 200, 204);
      const got = await cloud.get();
      expectStatus(got, 200);
      if (JSON.stringify(got.json?.destinations) !== '[]') throw new Broken(`it came back as ${got.text}`);
    },
  },
  {
    name: 'a PUT that is no document is refused with 400, 413, 415 or 422, and changes nothing',
    why: 'a broken writer would leave every device without an address book',
    async check(cloud) {
      const { etag, text } = await cloud.present();
      for (const body of ['{"destinations":', '{"destinations":{}}', '[]', '"x"']) {
        expectStatus(await cloud.put(body, { 'If-Match': etag }), 400, 413, 415, 422);
      }
      await expectUnchanged(cloud, text);
    },
  },
];
