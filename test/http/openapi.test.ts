/**
 * The documents of build/openapi are held against the tables of routes, the limits and the words of the code. What the
 * services really answer is held against them by each test that calls one (support/described.ts).
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { DEVICE_STATES } from '../../src/base/fleet-lines.js';
import { PROBLEMS } from '../../src/base/http/problem.js';
import { LANGS } from '../../src/base/langs.js';
import * as limits from '../../src/base/limits.js';
import { LINK_STATES, RELAY_STATES, STATUSES, STORAGE_STATES } from '../../src/base/views.js';
import { FAULTS_MAX } from '../../src/cloud/cloud.js';
import { CLOUD_DEVICES_MAX } from '../../src/cloud/devices.js';
import { OUTAGES_MAX } from '../../src/cloud/outages.js';
import { SAID } from '../../src/cloud/presence.js';
import { CLOUD_ROUTES } from '../../src/cloud/routes.js';
import { PROGRAMS_MAX, WITHIN_MS_MAX } from '../../src/device/alive-rule.js';
import { FORM_FIELD_BYTES_MAX } from '../../src/device/api/form-guard.js';
import { LIST_LIMIT_DEFAULT, POLL_S_MAX } from '../../src/device/api/messages.js';
import { ROUTES } from '../../src/device/api/routes.js';
import { HOURS_MAX } from '../../src/device/history/rows.js';
import { HOURS_CHARS_MAX, ZONE_CHARS_MAX } from '../../src/mail/book/hours.js';
import { AFTER_MINUTES_MAX } from '../../src/mail/book/rules.js';
import { described, faultsOfExamples, operationsOf } from '../support/described.js';

// biome-ignore lint/suspicious/noExplicitAny: a JSON document that is looked at where it is expected to be
type Json = any;

const EXPIRES_IN_S_MAX = limits.EXPIRES_IN_MS_MAX / limits.SECOND_MS;
const PROBLEM_TYPES = Object.keys(PROBLEMS).map((code) => `urn:fieldpost:problem:${code}`);
const TYPES = [1, 2, 3, 4];

/** Every maximum, pattern, list of words and default of a document, by its place. */
const RULES: Readonly<Record<'fieldpost' | 'fieldpost-cloud', Readonly<Record<string, unknown>>>> = {
  fieldpost: {
    'postMessages Idempotency-Key pattern': `^[!-~]{1,${limits.IDEMPOTENCY_KEY_CHARS_MAX}}$`,
    // The recipients, and `headers`.
    'postMessages to maxItems': limits.MAIL_RECIPIENTS_MAX + 1,
    'dropFailed status enum': ['failed'],
    'retryFailed status enum': ['failed'],
    'postMessages priority enum': ['normal', 'high'],
    'postMessages priority default': 'normal',
    'postMessages repair enum': ['yes', 'no'],
    'postMessages repair default': 'no',
    'listMessages limit maximum': limits.LIST_LIMIT_MAX,
    'listMessages limit default': LIST_LIMIT_DEFAULT,
    'getMessage wait maximum': POLL_S_MAX,
    'getMessage wait default': 0,
    'getHistory step enum': ['10m', '1h'],
    'getHistory step default': '10m',
    'purgeQueue damaged default': false,
    'listDestinations hidden default': false,
    'Email subject maxLength': limits.SUBJECT_CHARS_MAX,
    'Email reply_to maxItems': limits.MAIL_RECIPIENTS_MAX,
    'Email headers maxLength': limits.HEADER_VALUE_OCTETS_MAX,
    'Email headers maxProperties': limits.OWN_HEADERS_MAX,
    'Sms message maxLength': limits.SMS_CHARS_MAX,
    'Recipients maxItems': limits.MAIL_RECIPIENTS_MAX,
    'GivenPriority enum': ['normal', 'high', null],
    'ExpiresInS maximum': EXPIRES_IN_S_MAX,
    'Form subject maxLength': limits.SUBJECT_CHARS_MAX,
    'Form plain maxLength': FORM_FIELD_BYTES_MAX,
    'Form html maxLength': FORM_FIELD_BYTES_MAX,
    'Form headers maxLength': limits.HEADER_VALUE_OCTETS_MAX,
    'Form headers maxProperties': limits.OWN_HEADERS_MAX,
    'Form expires_in_s maximum': EXPIRES_IN_S_MAX,
    'CollapseKey pattern': '^[!-~]{1,64}$',
    'Form collapse_key pattern': '^[!-~]{0,64}$',
    'Form collapse_count enum': ['true', 'false', ''],
    'TrialFault blame enum': ['relay', 'login', 'settings', 'mail'],
    'FormAddresses maxItems': limits.MAIL_RECIPIENTS_MAX,
    'MessageType enum': TYPES,
    'Priority enum': ['normal', 'high'],
    'Status enum': STATUSES,
    'Message subject maxLength': limits.SUBJECT_KEPT_CHARS_MAX,
    'Lang enum': LANGS,
    'PersonName maxLength': limits.DESTINATION_NAME_CHARS_MAX,
    'AfterMinutes maximum': AFTER_MINUTES_MAX,
    'Hours maxLength': HOURS_CHARS_MAX,
    'Zone maxLength': ZONE_CHARS_MAX,
    'QuietFields for_s maximum': limits.QUIET_MS_MAX / limits.SECOND_MS,
    'QuietFields why maxLength': limits.REASON_CHARS_MAX,
    'LastWord text maxLength': limits.REASON_CHARS_MAX,
    'Program withinMs maximum': WITHIN_MS_MAX,
    'Programs programs maxItems': PROGRAMS_MAX,
    'State link zone maxLength': ZONE_CHARS_MAX,
    'State alive count maximum': PROGRAMS_MAX,
    'HiddenEntry id pattern': '^hidden-[0-9a-f]{16}$',
    'History step enum': ['10m', '1h'],
    'History rows maxItems': HOURS_MAX,
    'History rows relayUp maximum': 1,
    'History rows linkUp maximum': 1,
    'State link state enum': LINK_STATES,
    'State relay state enum': RELAY_STATES,
    'State storage state enum': STORAGE_STATES,
    'State settings state enum': ['ok', 'refused'],
    'Problem type enum': PROBLEM_TYPES,
  },
  'fieldpost-cloud': {
    'listDevices attention default': false,
    'postMail Idempotency-Key maxLength': limits.IDEMPOTENCY_KEY_CHARS_MAX,
    'listDevices order enum': ['id', 'attention'],
    'listDevices order default': 'id',
    'listDevices limit maximum': CLOUD_DEVICES_MAX,
    'listDevices limit default': CLOUD_DEVICES_MAX,
    'listDevices format enum': ['json', 'csv'],
    'DeviceId pattern': '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$',
    'Heartbeat state enum': SAID,
    'Heartbeat intervalMs maximum': limits.DAY_MS,
    'Entry type enum': TYPES,
    'Entry lang enum': LANGS,
    'Entry name maxLength': limits.DESTINATION_NAME_CHARS_MAX,
    'Message id maxLength': limits.IDEMPOTENCY_KEY_CHARS_MAX,
    'Message type enum': TYPES.slice(1),
    'Outages scope enum': ['cloud', 'instance'],
    'Outages outages maxItems': OUTAGES_MAX,
    'Outage kind enum': ['silent', 'stopped', null],
    'Quiet quietMs maximum': limits.QUIET_MS_MAX,
    'Quiet why maxLength': limits.REASON_CHARS_MAX,
    'Outages others maxItems': OUTAGES_MAX,
    'Outage why enum': ['ran', 'restarted', null],
    'Telling of enum': ['offline', 'online', null],
    'Telling news enum': ['silent', 'stopped', 'back', 'quiet', 'word', 'still', 'stuck', 'flows', 'drill'],
    'Telling type enum': TYPES,
    'Telling status enum': [...STATUSES, null],
    'listOutages limit maximum': OUTAGES_MAX,
    'listOutages format enum': ['json', 'csv'],
    'DeviceState enum': DEVICE_STATES,
    'Status store enum': ['files', 'etcd'],
    'Status relay state enum': RELAY_STATES,
    'Status storage state enum': STORAGE_STATES,
    'Status faults maxItems': FAULTS_MAX,
    'Problem type enum': PROBLEM_TYPES,
  },
};
const RULE = /^(?:max\w+|exclusiveMaximum|pattern|enum|default)$/;
/** Keys of a document that say nothing of the place of what is in them. */
const SILENT = ['properties', 'items', 'schema', 'additionalProperties', 'anyOf', 'oneOf'];

/** The rules in a part of a document. */
function rulesIn(part: Json, place: readonly string[]): [place: string, rule: unknown][] {
  if (typeof part !== 'object' || part === null) return [];
  return Object.entries<Json>(part).flatMap(([key, value]): [string, unknown][] => {
    if (/^examples?$/.test(key)) return [];
    if (RULE.test(key)) return [[[...place, key].join(' '), value]];
    const isSilent = SILENT.includes(key) || /^\d+$/.test(key);
    return rulesIn(value, isSilent ? place : [...place, key]);
  });
}

function allRules(document: Json): Record<string, unknown> {
  const ofOperations = operationsOf(document).flatMap(({ operation: { operationId, parameters = [] } }) =>
    parameters.flatMap(({ name, schema }: Json) => rulesIn(schema, [operationId, name])),
  );
  return Object.fromEntries([...ofOperations, ...rulesIn(document.components.schemas, [])]);
}

/** The objects below a key, wherever they are. */
function* allOf(part: Json, key: string): Generator<Json> {
  if (typeof part !== 'object' || part === null) return;
  for (const [name, value] of Object.entries<Json>(part)) {
    if (name === key) yield value;
    yield* allOf(value, key);
  }
}

const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

for (const [name, routes] of [
  ['fieldpost', ROUTES],
  ['fieldpost-cloud', CLOUD_ROUTES],
] as const) {
  const document = described(name);
  const { components, info, paths, tags } = document;

  t.test(`${name}.json has the routes, all of them and no others`, async (t) => {
    const told = operationsOf(document).map((one) => one.name);
    t.strictSame(told.sort(), routes.map(({ method, path }) => `${method} ${path}`).sort());
    t.equal(document.openapi, '3.1.0');
    t.equal(info.version, version, 'the version of the program');
    for (const [path, item] of Object.entries<Json>(paths)) {
      const [reference = ''] = [...allOf(item.parameters, '$ref')];
      const parameter = components.parameters[reference.split('/').at(-1) ?? ''];
      const isGood = parameter?.name === 'id' && parameter.in === 'path' && parameter.required === true;
      t.equal(isGood, path.includes('{id}'), path);
    }
  });

  t.test(`${name}.json: each operation has a name of its own, and a known tag`, async (t) => {
    const operations = operationsOf(document).map(({ operation }) => operation);
    const names = operations.map(({ operationId }) => operationId);
    t.equal(new Set(names).size, routes.length, 'each name is there once');
    for (const one of names) t.match(one, /^[a-z]+(?:[A-Z][a-z]+)*$/);
    const known = tags.map((tag: Json) => tag.name);
    for (const { operationId, tags: own } of operations) t.ok(known.includes(own[0]), operationId);
  });

  t.test(`${name}.json: every reference leads somewhere, and every component is used`, async (t) => {
    const used = new Set<string>(allOf(document, '$ref'));
    const present = Object.entries<Json>(components)
      .filter(([kind]) => kind !== 'securitySchemes')
      .flatMap(([kind, all]) => Object.keys(all).map((one) => `#/components/${kind}/${one}`));
    t.strictSame([...used].sort(), present.sort());
    const schemes = new Set([...allOf(document, 'security')].flat().flatMap((one) => Object.keys(one)));
    t.strictSame([...schemes].sort(), Object.keys(components.securitySchemes).sort());
  });

  t.test(`${name}.json has the limits and the words of the code`, async (t) => {
    t.strictSame(allRules(document), RULES[name]);
  });

  t.test(`${name}.json: each refusal has the codes and titles of its status`, async (t) => {
    const statuses = new Map<string, string>();
    for (const { operation } of operationsOf(document)) {
      for (const [status, { $ref = '', content = {} }] of Object.entries<Json>(operation.responses)) {
        // A person is answered with a page.
        if (Number(status) < 400 || 'text/html' in content) continue;
        t.match($ref, /^#\/components\/responses\/\w+$/, `${operation.operationId} ${status}`);
        t.equal(statuses.get($ref) ?? status, status, `${$ref} has one status`);
        statuses.set($ref, status);
      }
    }
    for (const [reference, status] of statuses) {
      const codes = Object.entries(PROBLEMS).filter(([, [of]]) => of === Number(status));
      const words = codes.map(([code, [, title]]) => `${code}: ${title}`).join('. ');
      t.equal(components.responses[reference.split('/').at(-1) ?? ''].description, words, status);
    }
  });

  t.test(`${name}.json: its examples are as it says itself`, async (t) => {
    const { faults, count } = faultsOfExamples(document);
    t.strictSame(faults, []);
    t.ok(count >= 6, `${count} examples`);
  });
}

t.test('what the tests of the documents would find', async (t) => {
  const document = described('fieldpost');
  document.components.schemas.Sms.properties.message.maxLength++;
  document.components.schemas.Message.examples[0].attempts = 'one';
  document.components.schemas.Page.properties.next.maxLength = 20;
  const rules = allRules(document);
  t.not(rules['Sms message maxLength'], limits.SMS_CHARS_MAX, 'another limit');
  t.equal(rules['Page next maxLength'], 20, 'one that the code does not have');
  t.match(faultsOfExamples(document).faults, [/attempts must be integer/], 'an example that is wrong');
});
