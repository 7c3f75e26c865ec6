/** Addresses of this machine that swallow whatever is sent to them at one port. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Test } from 'tap';

// Listens at each address and accepts nothing. The kernel drops every SYN once the one place of the queue is taken.
const LISTENERS = `
import socket, sys
held = []
for host in sys.argv[2:]:
    listener = socket.socket()
    listener.bind((host, int(sys.argv[1])))
    listener.listen(0)
    held += [listener, socket.create_connection((host, int(sys.argv[1])))]
print('ready', flush=True)
sys.stdin.read()
`;

/** Makes them so until the test ends; they are of 127.0.0.0/8. */
export async function blackHoles(t: Test, port: number, addresses: readonly string[]): Promise<void> {
  const args = ['-c', LISTENERS, String(port), ...addresses];
  const holes = spawn('python3', args, { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => holes.kill());
  await once(holes.stdout, 'data');
}
