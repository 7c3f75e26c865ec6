/**
 * The relay of relay.mjs as a process of its own, so that its work is on nobody's account: tells its port, and
 * when as many messages have arrived as its argument says. deliver.mjs forks it.
 */
import { startRelay } from './relay.mjs';

let missing = Number(process.argv[2]);
const { port } = await startRelay(() => {
  missing -= 1;
  if (missing === 0) process.send('all arrived');
});
process.send(port);
