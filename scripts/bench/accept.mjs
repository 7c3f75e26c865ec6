/** Accepted requests a second, 1 KiB each and durable: with one client and with 32, with 0 and 10,000 messages queued. */
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import { fill, load, startServer } from './server.mjs';

const MEASURED_MS = 1500;
const QUEUED = 10_000;

/** Resolves with the rows; the plan is that of rounds.mjs. */
export async function accept(plan) {
  const rows = [];
  for (const [connections, bestPeer, floor] of [
    [1, 2, 0.8],
    [32, 8, 0.7],
  ]) {
    const rate = (kind, queued) => async (directory) => {
      const server = await startServer(kind, directory);
      if (queued > 0) await fill(server.port, queued);
      const { accepted, ms } = await load(server.port, { connections, ms: MEASURED_MS });
      await server.end('SIGKILL');
      return (accepted / ms) * 1000;
    };
    const {
      fieldpost,
      bare,
      sqlite,
      full,
      before: earlier,
    } = await interleave(plan, {
      fieldpost: rate('fieldpost', 0),
      ...before((kind) => rate(kind, 0)),
      bare: rate('bare', 0),
      sqlite: rate('sqlite', 0),
      full: rate('fieldpost', QUEUED),
    });
    const clients = `${connections} client${connections > 1 ? 's' : ''}`;
    rows.push(
      ...againstBefore(`accept, ${clients}`, '/s', fieldpost, earlier),
      compare(
        `accept, ${clients}`,
        '/s',
        fieldpost,
        { name: 'express+SQLite', numbers: sqlite },
        { atLeast: bestPeer },
      ),
      compare(`accept, ${clients}`, '/s', fieldpost, { name: 'bare', numbers: bare }, { atLeast: floor }),
      compare(
        `accept, ${clients}, 10,000 queued`,
        '/s',
        full,
        { name: 'ours, empty', numbers: fieldpost },
        { atLeast: 0.9 },
      ),
    );
  }
  return rows;
}
