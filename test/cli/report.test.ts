/** `fieldpost report`: what it tells, what it hides, and what it does without a daemon, settings or permissions. */
import t from 'tap';
import { StandIns } from '../../src/cli/stand-ins.js';
import { startApi } from '../support/api.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { envOf, failure, fieldpost, preparedDaemon, type World } from './terminal.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

const ROUNDS = 25;
const LINE = '2026-11-24T10:00:00+0000 fieldpost[7]: ';
const MAIL_HOST = 'mail.relay.example';

/** Texts that must not be found in a report, each made once. */
class Marks {
  readonly all: string[] = [];
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  #chars(from: string, count: number): string {
    return Array.from({ length: count }, () => pick(this.#random, [...from])).join('');
  }

  #kept(mark: string): string {
    this.all.push(mark);
    return mark;
  }

  /** A word, as a name or a part of an address has it. */
  word(): string {
    return this.#kept(`Zq${this.#chars('abcdefghijkmnopqrstuvwxyz', 7)}`);
  }

  digits(): string {
    return this.#kept(this.#chars('123456789', 9));
  }

  secret(): string {
    return this.#kept(this.#chars('ABCDEFGHabcdefgh123456789-_', 28));
  }

  address(): string {
    const local = pick(this.#random, [
      () => this.word(),
      () => `${this.word()}.${this.word()}+${this.word()}`,
      () => `${this.word()}_${this.word()}`,
      () => `ü${this.word()}`,
    ])();
    const domain = pick(this.#random, [
      () => `${this.word()}.example`,
      () => `mx.${this.word()}.co.uk`,
      () => `${this.word()}.bücher.example`,
    ])();
    return `${local}@${domain}`;
  }
}

/** What a relay says, with private words in all places. */
function replyOf(marks: Marks, known: readonly string[], random: () => number): string {
  return pick(random, [
    () =>
      `550 5.1.1 <${marks.address()}>: Recipient address rejected: ${marks.word()} unknown in ${marks.word()}`,
    () =>
      `554-5.7.1 blocked: "${pick(random, known)}" from ${marks.word()}.example [203.0.113.${marks.digits().slice(0, 2)}]`,
    () => `451 4.7.1 Dear ${marks.word()} ${pick(random, known)}, call +31 ${marks.digits()}`,
    () => `452 ${marks.secret()} mailto:${marks.address()} https://${marks.word()}.example/${marks.secret()}`,
  ])();
}

/** A line of the journal with private words where Fieldpost or another program may have them. */
function lineOf(marks: Marks, known: readonly string[], random: () => number): string {
  const text = pick(random, [
    () =>
      `sent id=000000N6BHF4VE6 relay=${MAIL_HOST}:587 reply=${JSON.stringify(replyOf(marks, known, random))}`,
    () =>
      `relay failing relay=${MAIL_HOST}:587 reason="${MAIL_HOST}:587: ${replyOf(marks, known, random).replaceAll('"', '')}"`,
    () => `queue held by=${marks.word()}`,
    () => `put aside name=${marks.word()}.txt as=x`,
    () => `smtp refused peer=203.0.113.7:4 reply="550 5.1.1 ${marks.word()}"`,
    () =>
      `destinations not synced reason="the cloud answers: ${pick(random, known)} of ${marks.address()} has no ${pick(random, known)}"`,
    () => `mail from ${marks.address()} to <${marks.address()}>, "${marks.word()} ${marks.word()}"@x.example`,
    () =>
      `proxy http://${marks.word()}:${marks.secret()}@${marks.word()}.example:3128/${marks.secret()} Bearer ${marks.secret()}`,
    () => `password=${marks.word()} api_token=${marks.secret()} ${marks.secret()}`,
    () => `call +49 ${marks.digits()} or 00${marks.digits()}, see /home/${marks.word()}/mail`,
    () => `host ${marks.word()}.example, ${marks.word()}.${marks.word()}.co.uk does not answer`,
  ])();
  return LINE + text;
}

t.test('no secret, and nobody whom a message names, is in a report', async (t) => {
  const random = seededRandom(seed);
  for (let round = 0; round < ROUNDS; round++) {
    const marks = new Marks(random);
    const token = marks.secret();
    const names = [`${marks.word()} ${marks.word()}`, marks.word()];
    const known = [...names.flatMap((name) => name.split(' ')), token];
    const reason = (words: string) => `${MAIL_HOST}:587: ${words}`;
    const at = new FakeClock().wallMs();
    const relay = {
      state: 'failing',
      sinceMs: at,
      reason: reason(replyOf(marks, known, random)),
      nextTryMs: null,
      rate: null,
    } as const;
    const past = { state: 'offline', sinceMs: at, durationMs: 5000 } as const;
    const link = {
      ...past,
      reason: `https://cloud.example: 422: ${marks.address()} is ${names[0]}`,
      lastHeartbeatMs: null,
      history: [
        { ...past, reason: `http://${marks.word()}:${marks.word()}@proxy.example refuses ${marks.word()}@x` },
      ],
    };
    await using api = await startApi({
      settings: { apiToken: token, cloud: {} as never },
      mayBeFrom: () => true,
      relayState: () => relay,
      linkState: () => link,
    });
    const login = { ...envOf(api), FIELDPOST_API_TOKEN: token };
    const run = (argv: string[], world: World = {}) =>
      fieldpost(argv, { env: login, clock: api.clock, ...world });
    for (const name of names) {
      const to = pick(random, [
        ['email', marks.address()],
        ['sms', `+49${marks.digits()}`],
      ] as const);
      const argv = ['destinations', 'add', '--type', to[0], '--to', to[1], '--lang', 'en', '--name', name];
      t.equal((await run(argv)).code, 0);
    }
    const rest = ['--subject', `${marks.word()} ${marks.word()}`, `--body=${marks.secret()}`];
    const from = `${marks.word()} <${marks.address().replaceAll(/[^\w@.+]/g, '')}>`;
    marks.all.push(...(/<(.*)@/.exec(from) ?? []).slice(1));
    for (const to of [
      marks.address().replaceAll(/[^\w@.+]/g, ''),
      `${names[0]} <a.${marks.word()}@b.example>`,
    ]) {
      t.equal(
        (await run(['send', '--to', to, '--from', from, '--cc', `${marks.word()}@x.example`, ...rest])).code,
        0,
      );
    }
    t.equal(
      (await run(['send', '--type', 'sms', '--to', `+49${marks.digits()}`, '--body', marks.word()])).code,
      0,
    );
    for (const { id } of [...api.store.queued()]) {
      api.store.claim(id);
      const reply = replyOf(marks, known, random);
      await api.store.settle(
        id,
        random() < 0.5 ? { kind: 'failed', reply } : { kind: 'deferred', reply, delayMs: 1000 },
      );
    }
    const disk = new FaultyDisk();
    await disk.makeDirectory('/state/spool');
    for (const path of [`/state/${marks.word()}`, `/state/spool/${marks.word()}.eml`, '/state/store.json'])
      await (await disk.open(path, 'create')).close();
    const env = pick(random, [good, goodWithOauth, bad])(marks);
    const world: World = {
      env: { ...env, ...login, FIELDPOST_STATE_DIR: '/state' },
      files: { '/pw': `${marks.secret()}\n`, '/key': marks.secret(), '/secret': marks.secret() },
      disk,
      outputOf: async () => Array.from({ length: 30 }, () => lineOf(marks, known, random)).join('\n'),
    };
    const { code, out, err } = await run(['report'], world);
    t.same([code, err], [0, '']);
    const leaks = marks.all.filter((mark) => out.toLowerCase().includes(mark.toLowerCase()));
    t.same(leaks, [], `round ${round}`);
    for (const words of [MAIL_HOST, /\b[45]5\d 5|45[12] |55[04]/, 'offline', 'store.json', 'fieldpost[7]:'])
      t.match(out, words);
    if (leaks.length > 0) return t.comment(out);
  }
});

function good(marks: Marks) {
  return {
    FIELDPOST_RELAY: `smtp://${marks.word()}%40x.example@${MAIL_HOST}`,
    FIELDPOST_RELAY_PASSWORD_FILE: '/pw',
    FIELDPOST_FROM: `${marks.word()} <${marks.word()}@${marks.word()}.example>`,
    FIELDPOST_FROM_ALLOWED: `@${marks.word()}.example,${marks.word()}@x.example`,
    FIELDPOST_LOCAL_MAIL: `${marks.word()}@x.example`,
    FIELDPOST_ALLOWED_HOSTS: `${marks.word()},${marks.word()}.example`,
    FIELDPOST_HELO_NAME: `${marks.word()}.example`,
    FIELDPOST_CLOUD: 'https://cloud.example',
    FIELDPOST_DEVICE_ID: 'gw-7',
    FIELDPOST_CLOUD_KEY_FILE: '/key',
    FIELDPOST_CLOUD_PROXY: `http://${marks.word()}:${marks.word()}%40@proxy.example:3128`,
    FIELDPOST_CLOUD_SERVER_WEBHOOK: `https://hooks.example/${marks.secret()}?k=${marks.secret()}`,
  };
}

function goodWithOauth(marks: Marks) {
  return {
    FIELDPOST_RELAY: `smtp://${MAIL_HOST}`,
    FIELDPOST_RELAY_USER: `${marks.word()}@x.example`,
    FIELDPOST_RELAY_OAUTH_TOKEN_URL: `https://login.example/${marks.secret()}/token`,
    FIELDPOST_RELAY_OAUTH_CLIENT_ID: marks.secret(),
    FIELDPOST_RELAY_OAUTH_CLIENT_SECRET_FILE: '/secret',
    FIELDPOST_CLOUD: 'https://cloud.example',
    FIELDPOST_DEVICE_ID: 'gw-7',
    FIELDPOST_CLOUD_KEY: marks.secret(),
    HTTPS_PROXY: `http://${marks.word()}:${marks.word()}@proxy.example:3128`,
  };
}

/** Every kind of fault, with a secret in each value. */
function bad(marks: Marks) {
  return {
    FIELDPOST_RELAY: `smtp://${marks.word()}:${marks.word()}@${MAIL_HOST}`,
    FIELDPOST_RELAI_PASSWORD: marks.secret(),
    FIELDPOST_FROM: `${marks.word()} ${marks.word()}@@x.example`,
    FIELDPOST_FROM_ALLOWED: `${marks.word()} ${marks.word()}`,
    FIELDPOST_ALLOWED_HOSTS: `-${marks.word()}`,
    FIELDPOST_RELAY_PASSWORD_FILE: marks.secret(),
    FIELDPOST_CLOUD: `https://${marks.word()}:${marks.word()}@cloud.example`,
    FIELDPOST_CLOUD_PROXY: `https://${marks.word()}:${marks.word()}@proxy.example`,
    [`FIELDPOST_${marks.word().toUpperCase()}`]: marks.secret(),
  };
}

t.test('a password in the URL of a file is hidden where somebody repeats it', async (t) => {
  const env = {
    FIELDPOST_CLOUD: 'https://cloud.example',
    FIELDPOST_DEVICE_ID: 'gw-7',
    FIELDPOST_CLOUD_KEY_FILE: '/key',
    FIELDPOST_CLOUD_PROXY_FILE: '/proxy',
    FIELDPOST_STATE_DIR: '/state',
    // No daemon is there.
    FIELDPOST_LISTEN: '127.0.0.1:1',
  };
  const { code, out } = await fieldpost(['report'], {
    env,
    files: { '/key': 'k', '/proxy': 'http://pump:queue%40@proxy.example:3128\n' },
    outputOf: async () => `${LINE}link offline reason="proxy.example:3128: no login queue@ as queue%40"`,
  });
  t.equal(code, 0);
  t.match(out, /^ +FIELDPOST_CLOUD_PROXY=http:\/\/\(hidden\)@proxy\.example:3128$/m);
  t.match(out, /link offline reason="proxy\.example:3128: no login/);
  t.notMatch(out, /queue(?:@|%40)/);
});

t.test(
  "the device's id is shown, and words of the sender's display name stay where others use them",
  async (t) => {
    const names = ['Pump Relay', 'Gateway', 'Queue'];
    for (const id of [
      'Pump-3',
      'pump-3.farm.example',
      '004912345678',
      'serial:0123456789abcdef0123456789',
      '10.0.0.7',
    ]) {
      for (const name of names) {
        const { code, out } = await fieldpost(['report'], {
          env: {
            FIELDPOST_FROM: `${name} <${id.replaceAll(':', '')}@mail.example>`,
            FIELDPOST_RELAY: `smtp://${id.replaceAll(':', '%3A')}@pump.relay.example`,
            FIELDPOST_RELAY_PASSWORD_FILE: '/pw',
            FIELDPOST_CLOUD: 'https://cloud.example',
            FIELDPOST_DEVICE_ID: id,
            FIELDPOST_CLOUD_KEY_FILE: '/pw',
            FIELDPOST_STATE_DIR: '/state',
            FIELDPOST_LISTEN: '127.0.0.1:1',
          },
          files: { '/pw': `${id}-hunter2\n` },
          outputOf: async () =>
            [
              `${LINE}Pump Gateway: Relay failing, Queue full device=${id}`,
              `${LINE}device ${id}. "${id}" by ${id}.own.example or ${id.replaceAll(':', '')}@mail.example, ${id}-hunter2`,
            ].join('\n'),
        });
        t.equal(code, 0);
        t.match(out, `  FIELDPOST_DEVICE_ID=${id}\n`);
        t.match(out, `Pump Gateway: Relay failing, Queue full device=${id}\n`);
        t.match(out, `device ${id}. "${id}" by `);
        t.notMatch(out, /hunter2|mail\.example|own\.example/);
      }
    }
  },
);

t.test('an ordinary word in the name of somebody in the address book stays', async (t) => {
  const standIns = new StandIns(['relay.jansen.example'], 'jansen-7');
  standIns.learnPeople(['Ann Jansen', 'Mail Service', 'Art']);
  t.equal(
    standIns.text(
      'Ann Jansen of relay.jansen.example, device jansen-7: mail Service, Jansen; Article of Art',
    ),
    '(hidden) of relay.jansen.example, device jansen-7: mail Service, (hidden); Article of (hidden)',
  );
  t.equal(standIns.text('call +31 6 1234 5678'), 'call number1');
});

t.test('a stand-in is the same wherever an address stands', async (t) => {
  const standIns = new StandIns([MAIL_HOST]);
  t.equal(standIns.recipient('John@x.example'), 'address1');
  t.equal(standIns.text('<john@X.example>, ann@y.example at y.example'), '<address1>, address2 at host1');
  t.equal(
    standIns.text(`${MAIL_HOST}:587: 550 5.1.1 <john@x.example>: user unknown, John`),
    `${MAIL_HOST}:587: 550 5.1.1 … user unknown, …`,
  );
  t.equal(
    standIns.line(
      'started version=0.1.0 listen=127.0.0.1:43770 by=john reason="see /var/lib/fieldpost/store.json"',
    ),
    'started version=0.1.0 listen=127.0.0.1:43770 by=(hidden) reason="see /var/lib/fieldpost/store.json"',
    'what is ours stays',
  );
  t.equal(
    standIns.text('smtp://u:p@mail.relay.example:25 [::1]:43770 192.0.2.7'),
    `smtp://(hidden)@${MAIL_HOST}:25 [::1]:43770 ip1`,
  );
  t.equal(
    standIns.text('sms to +31 6 1234 5678 at 2026-11-24T10:00:00Z'),
    'sms to number1 at 2026-11-24T10:00:00Z',
  );
});

t.test(
  'without a daemon, with a broken env file, without permissions: it says what it could not read',
  async (t) => {
    const directory = '/var/lib/fieldpost';
    const FILE = '/etc/fieldpost/fieldpost.env';
    const disk = new FaultyDisk();
    await disk.makeDirectory(`${directory}/journal`);
    await (await disk.open(`${directory}/journal/00000001.log`, 'create')).close();
    const away = { FIELDPOST_LISTEN: 'unix:/nonexistent/s', FIELDPOST_STATE_DIR: directory };
    const down = await fieldpost(['report'], { env: away, disk });
    t.equal(down.code, 0);
    t.match(down.out, /^state\n {2}\(not known: no daemon answers on unix:/m);
    t.match(down.out, /^ {2}journal\/00000001\.log +0 bytes$/m);
    t.match(down.out, /^ {2}\(skipped: there is no journalctl\)$/m);
    t.match(down.out, /^ {2}no relay is configured/m);
    t.match(down.out, 'FIELDPOST_KEEP_FAILED=7d');
    const broken = { [FILE]: `FIELDPOST_LISTEN=unix:/nonexistent/s\nFIELDPOST_HISTORY=7\nhunter2 is it\n` };
    const half = await fieldpost(['report'], { files: broken, disk });
    t.equal(half.code, 0);
    t.match(half.out, /^settings\n {2}\/etc\/fieldpost\/fieldpost\.env:3: /m);
    t.match(half.out, 'FIELDPOST_HISTORY=7', 'the good lines count');
    t.notMatch(half.out, /hunter2/);
    const closed: World = {
      env: away,
      files: { [FILE]: failure('EACCES', FILE) },
      disk: {
        list: () => Promise.reject(failure('EACCES', directory)),
        look: () => Promise.reject(failure('EACCES', directory)),
        space: () => Promise.reject(failure('EACCES', directory)),
      },
    };
    const shut = await fieldpost(['report'], closed);
    t.equal(shut.code, 0);
    t.match(shut.out, /\(free space not known: EACCES/);
    t.match(shut.out, /\(the directory cannot be read: EACCES/);
    t.match(
      (await fieldpost(['report'], { ...closed, env: {} })).out,
      /no permission to read \/etc\/fieldpost/,
    );
    await using other = await preparedDaemon({ 'GET /api/internal/state': { status: 401, body: {} } });
    t.match((await other.run(['report'])).out, /^state\n {2}\(not known: .* asks for a token/m);
  },
);

t.test('--out makes a new file, and replaces none', async (t) => {
  const env = { FIELDPOST_LISTEN: 'unix:/nonexistent/s' };
  const made: string[][] = [];
  const writeNew = async (...args: string[]) => void made.push(args);
  const { code, out, err } = await fieldpost(['report', '--out', '/tmp/r'], { env, writeNew });
  t.same([code, out], [0, '']);
  t.match(err, /^The report is in \/tmp\/r\./);
  t.match(made, [['/tmp/r', /^Fieldpost report of 2/]]);
  const there = () => Promise.reject(failure('EEXIST', '/tmp/r'));
  const refused = await fieldpost(['report', '--out', '/tmp/r'], { env, writeNew: there });
  t.match(refused, { code: 73, err: /\/tmp\/r is there already/ });
  const full = () => Promise.reject(failure('ENOSPC', '/tmp/r'));
  t.match(await fieldpost(['report', '--out', '/tmp/r'], { env, writeNew: full }), {
    code: 73,
    err: /cannot be made: the disk is full/,
  });
});
