/**
 * `fieldpost dev`: the real daemon with a mail catcher as its relay, all on loopback, for whoever writes a
 * program against the API. It says where everything is, and shows every mail as it arrives. Used by main.ts.
 */
import { join } from 'node:path';
import type { Config } from '../config.js';
import type { Clock } from '../system/clock.js';
import type { Disk } from '../system/disk.js';
import { openCatcher } from './catcher.js';
import { openMailbox } from './mailbox.js';
import { showMail } from './show.js';

/** What main hands over. */
export interface DevOptions {
  readonly config: Config;
  readonly disk: Disk;
  readonly clock: Clock;
  /** For the person at the terminal. */
  readonly print: (text: string) => void;
  /** Starts the daemon proper and gives the address of its API. */
  readonly startDaemon: (config: Config) => Promise<{ address: string; stop(): Promise<void> }>;
}

/** Starts everything; the one thing to do with what it gives is to stop it. */
export async function startDev(options: DevOptions): Promise<{ stop(): Promise<void> }> {
  const { config, disk, clock, print, startDaemon } = options;
  const directory = join(config.stateDir, 'mail');
  await disk.makeDirectory(config.stateDir);
  const mailbox = await openMailbox(disk, directory);
  const catcher = await openCatcher({
    port: 0,
    clock,
    async onMail(mail) {
      print(showMail(mail, await mailbox.keep(mail.raw)));
    },
  });
  try {
    const relay = { host: '127.0.0.1', port: catcher.port, tls: 'never', user: null } as const;
    const daemon = await startDaemon({ ...config, relays: [relay], relayPassword: null, relayCa: null });
    print(greeting(daemon.address, catcher.port, directory));
    return {
      async stop() {
        await daemon.stop();
        await catcher.close();
      },
    };
  } catch (error) {
    await catcher.close();
    throw error;
  }
}

function greeting(address: string, catcherPort: number, directory: string): string {
  return `
Fieldpost is ready, with nothing that leaves this machine.

  local API     http://${address}
  mail catcher  127.0.0.1:${catcherPort}, mails kept in ${directory}

Try it in another terminal; the mail shows up here:

  curl -i http://${address}/api/internal/messages -H 'Content-Type: application/json' \\
    -d '[{"type":1,"destination":"john@example.com","subject":"Hello","plain":"It works."}]'

Ctrl-C stops it; what is queued is kept.

`;
}
