/** Accepted requests a second, 1 KiB each and durable: with one client and with 32, with none, 10,000 and 100,000 more messages queued. */
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import { scaled } from './scale.mjs';
import { fill, load, startServer, warmUp } from './server.mjs';

const MEASURED_MS = scaled(1500);
const FIRST_MS = scaled(1000);
const QUEUED = scaled(10_000);
const MANY_QUEUED = scaled(100_000);

/** Resolves with the rows; the plan is that of rounds.mjs. */
export async function accept(plan) {
  return [
    // Both wait for one sync: with one client there is no more to win.
    ...(await warm(plan, 1, { bare: 0.95 })),
    ...(await warm(plan, 32, { bare: 0.75 })),
    ...(await cold(plan)),
  ];
}

/** The rates of servers that have warmed up, and the least that ours may be of each peer's. */
async function warm(plan, connections, atLeast) {
  const rate = (kind, queued) => async (directory) => {
    const server = await startServer(kind, directory);
    await warmUp(server.port);
    if (queued > 0) await fill(server.port, queued);
    return accepted(server, { connections, ms: MEASURED_MS });
  };
  const found = await interleave(plan, {
    fieldpost: rate('fieldpost', 0),
    ...before((kind) => rate(kind, 0)),
    bare: rate('bare', 0),
    sqlite: rate('sqlite', 0),
    full: rate('fieldpost', QUEUED),
    fuller: rate('fieldpost', MANY_QUEUED),
  });
  const clients = `accept, ${connections} client${connections > 1 ? 's' : ''}`;
  const row = (name, numbers, target) => compare(clients, '/s', found.fieldpost, { name, numbers }, target);
  const empty = { name: 'ours, none more', numbers: found.fieldpost };
  return [
    row('bare', found.bare, { atLeast: atLeast.bare }),
    row('Express+SQLite', found.sqlite),
    compare(`${clients}, 10,000 more queued`, '/s', found.full, empty, { atLeast: 0.95 }),
    compare(`${clients}, 100,000 more queued`, '/s', found.fuller, empty, { atLeast: 0.9 }),
    ...againstBefore(clients, '/s', found.fieldpost, found.before),
  ];
}

/** The rates in the first second of a server that has just started. */
async function cold(plan) {
  const rate = (kind) => async (directory) =>
    accepted(await startServer(kind, directory), { connections: 32, warmMs: 0, ms: FIRST_MS });
  const found = await interleave(plan, {
    fieldpost: rate('fieldpost'),
    ...before(rate),
    bare: rate('bare'),
    sqlite: rate('sqlite'),
  });
  const figure = 'accept, 32 clients, first second after the start';
  return [
    compare(figure, '/s', found.fieldpost, { name: 'bare', numbers: found.bare }, { atLeast: 0.5 }),
    compare(figure, '/s', found.fieldpost, { name: 'Express+SQLite', numbers: found.sqlite }),
    ...againstBefore(figure, '/s', found.fieldpost, found.before),
  ];
}

/** Measures, and ends the server. */
async function accepted(server, orders) {
  const { accepted: count, ms } = await load(server.port, orders);
  await server.end('SIGKILL');
  return (count / ms) * 1000;
}
