/**
 * The container recipe: its steps run in a Debian of its release, and the daemon then runs as compose.yaml has it, with a
 * root that it cannot write to. No registry is asked for an image.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Test, test } from 'tap';
import { configOf } from '../support/system.js';
import { Container, INSIDE, skipWithoutContainer } from './container.js';

const RECIPE = fileURLToPath(new URL('../../build/container/', import.meta.url));
/** The instructions of the last stage: its image is what runs. */
const STEPS = readFileSync(`${RECIPE}Containerfile`, 'utf8')
  .split(/^FROM /m)
  .at(-1)
  ?.split('\n')
  .map((line) => /^([A-Z]+) (.*)$/.exec(line))
  .filter((found) => found !== null)
  .map(([, word = '', rest = '']) => ({ word, rest })) as { word: string; rest: string }[];
const COMPOSE = readFileSync(`${RECIPE}compose.yaml`, 'utf8');

const only = (word: string): string => STEPS.find((step) => step.word === word)?.rest ?? '';

/** Does what the recipe says, but for what apt-get installs, which this Debian has. */
async function build(t: Test, it: Container): Promise<void> {
  for (const { word, rest } of STEPS) {
    if (word === 'COPY') {
      const [, from = '', to = ''] = /^--from=build \/src\/(\S+) (\S+)$/.exec(rest) ?? [];
      await it.must(`install -D -m "$(stat -c %a ${INSIDE}/${from})" ${INSIDE}/${from} ${to}`);
    } else if (word === 'RUN' && rest.startsWith('apt-get ')) {
      t.match(rest, / nodejs /);
      await it.must('node --version');
    } else if (word === 'RUN') await it.must(rest);
  }
}

/** A service with what compose.yaml allows: one user, no rights, and a root that is only read. */
const SERVICE = (environment: string) =>
  `systemd-run --quiet --unit=recipe -p User=fieldpost -p ProtectSystem=strict -p 'CapabilityBoundingSet=' \
-p NoNewPrivileges=yes -p MemoryMax=128M -p ReadWritePaths=/var/lib/fieldpost -p ReadWritePaths=/run/fieldpost \
${environment} fieldpost run`;

test('every setting of compose.yaml is one', async (t) => {
  const settings = [...COMPOSE.matchAll(/^ {6}(FIELDPOST_\w+): (.*)$/gm)].map(([, key = '', value = '']) => [
    key,
    value,
  ]);
  t.ok(settings.length > 3);
  const files = settings.filter(([key]) => key?.endsWith('_FILE'));
  t.equal(files.length, 2);
  const direct = settings.map(([key = '', value = '']) =>
    key.endsWith('_FILE') ? [key.slice(0, -5), 'x'.repeat(16)] : [key, value],
  );
  const { allowedHosts } = configOf(Object.fromEntries(direct));
  t.same(allowedHosts, ['fieldpost']);
});

test('the steps make a container that runs', { skip: skipWithoutContainer('trixie') }, async (t) => {
  const it = await Container.boot(t, 'trixie');
  await build(t, it);
  const environment = only('ENV')
    .split(' ')
    .map((one) => `-E ${one}`)
    .join(' ');
  await it.must(SERVICE(environment));
  const socket = '--unix-socket /run/fieldpost/api.sock';
  const check = (JSON.parse(only('HEALTHCHECK').replace(/^.*CMD /, '')) as string[]).join(' ');
  const healthy = `setpriv --reuid fieldpost --regid fieldpost --clear-groups env ${only('ENV')} ${check}`;
  await it.until(`${healthy}; echo status $?`, /status 0/);
  // Another container, by group_add.
  const post = `setpriv --reuid nobody --regid nogroup --groups 943 curl -s ${socket} -H 'Content-Type: application/json' \
-d '[{"type":1,"destination":"a@x.example","subject":"x"}]' http://localhost/api/internal/messages`;
  t.match(await it.must(post), /"status":"queued"/);
  t.not((await it.run(post.replace('--groups 943', '--clear-groups'))).status, 0, 'nobody else');
  await it.must('systemctl kill --signal=SIGKILL --kill-whom=all recipe');
  // systemd may learn of its death a moment later, and keeps a failed unit until then.
  await it.until('systemctl reset-failed recipe; systemctl show -P LoadState recipe', /not-found/);
  t.not((await it.run(healthy)).status, 0, 'a dead daemon is not healthy');

  // The second way: a port, a token, and the name of the service.
  await it.write('/run/api-token', 'compose-token-123');
  await it.must('chown fieldpost /run/api-token && chmod 400 /run/api-token');
  const second = [
    'FIELDPOST_LISTEN=unix:/run/fieldpost/api.sock,0.0.0.0:43770',
    'FIELDPOST_ALLOWED_HOSTS=fieldpost',
    'FIELDPOST_API_TOKEN_FILE=/run/api-token',
  ];
  await it.must(SERVICE(`${environment} ${second.map((one) => `-E ${one}`).join(' ')}`));
  await it.until(`${healthy}; echo status $?`, /status 0/);
  const list = (header: string) =>
    it.run(
      `curl -s -o /dev/null -w '%{http_code}' ${header} --resolve fieldpost:43770:127.0.0.1 http://fieldpost:43770/api/internal/messages`,
    );
  t.equal((await list('')).out, '401');
  t.equal((await list("-H 'Authorization: Bearer compose-token-123'")).out, '200');
  t.match(await it.must(`${healthy}`), /queue +1 /, 'the volume has kept the message');
  t.equal(await it.must('systemctl stop recipe; systemctl show -P Result recipe'), 'success');
});
