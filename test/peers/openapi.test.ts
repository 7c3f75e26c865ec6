/** Two linters by other people find no error in the descriptions of the API and of the reference cloud. scripts/peers installs them. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { startApi } from '../support/api.js';
import { startCloud } from '../support/reference-cloud.js';
import { skipWithout } from './peers.js';

const HOME = '/usr/local/lib/fieldpost-peers/linters/node_modules/.bin';
const LINTERS: Readonly<Record<string, (file: string) => readonly string[]>> = {
  redocly: (file) => ['lint', file, '--extends=recommended'],
  spectral: (file) => ['lint', file, '--ruleset', join(file, '..', 'ruleset.json')],
};
const skip = skipWithout(...Object.keys(LINTERS).map((name) => join(HOME, name)));

/** The linter's output; `isGood` is false if it has found an error. */
async function lint(t: Test, name: string, document: object): Promise<{ isGood: boolean; output: string }> {
  const directory = t.testdir({ 'ruleset.json': '{"extends":["spectral:oas"]}' });
  const file = join(directory, 'openapi.json');
  writeFileSync(file, JSON.stringify(document));
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  const args = LINTERS[name]?.(file) ?? [];
  return await promisify(execFile)(join(HOME, name), args, { cwd: directory, env }).then(
    ({ stdout, stderr }) => ({ isGood: true, output: stdout + stderr }),
    ({ stdout, stderr }) => ({ isGood: false, output: `${stdout}${stderr}` }),
  );
}

for (const name of Object.keys(LINTERS)) {
  t.test(`${name} finds no error in /openapi.json`, { skip }, async (t) => {
    await using api = await startApi();
    const document = (await api.call('GET', '/openapi.json')).json;
    const { isGood, output } = await lint(t, name, document);
    t.ok(isGood, output);
    document.paths['/healthz'].get.operationId = 'getState';
    t.notOk((await lint(t, name, document)).isGood, 'it finds a name that stands twice');
  });

  t.test(`${name} finds no error in /openapi.json of the reference cloud`, { skip }, async (t) => {
    await using cloud = await startCloud();
    const { isGood, output } = await lint(t, name, (await cloud.call('GET', '/openapi.json')).json);
    t.ok(isGood, output);
  });
}
