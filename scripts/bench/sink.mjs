/**
 * The relay of relay.mjs in another process, so that its CPU is not measured. It reports its port, and the arrival of as
 * many messages as its argument says. deliver.mjs forks it.
 */
import { startRelay } from './relay.mjs';

let missing = Number(process.argv[2]);
const { port } = await startRelay(() => {
  missing -= 1;
  if (missing === 0) process.send('all arrived');
});
process.send(port);
