/**
 * `fieldpost dev`, for developers of programs that use the API: the daemon with a mail catcher as its relay and the
 * reference cloud as its cloud, all on loopback. It prints the addresses and every message, and has an inbox for browsers.
 */
import { join } from 'node:path';
import { showListener } from '../base/config/endpoints.js';
import type { ListenConfig } from '../base/config/types.js';
import { SECOND_MS } from '../base/limits.js';
import type { Clock } from '../base/system/clock.js';
import type { Disk } from '../base/system/disk.js';
import type { Log } from '../base/system/log.js';
import { counted, cut, visible } from '../base/text.js';
import type { SendShort, ShortMessage } from '../mail/message/message.js';
import { type CaughtMail, openCatcher } from './catcher.js';
import { Inbox, openMailbox } from './inbox.js';
import { serveInbox } from './inbox-server.js';
import { readMail } from './reader.js';
import type { DevConfig } from './settings.js';

/** A terminal gets so much of the text of a message. */
const TEXT_CHARS_MAX = 4000;

interface DevOptions {
  readonly config: DevConfig;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly log: Log;
  readonly print: (text: string) => void;
  /** The port of the inbox, if it is free; else it gets another. */
  readonly inboxPort: number;
  readonly startDaemon: StartService;
  readonly startCloud: (config: DevConfig, send: SendShort) => ReturnType<StartService>;
}

/** Starts a service and gives the address of its API. */
type StartService = (config: DevConfig) => Promise<{ address: string; stop(): Promise<void> }>;

/** The id and the key of the device; the embedded cloud accepts any key. */
const DEVICE = 'dev';

/** Starts catcher, cloud and daemon; `stop` stops them in reverse order. */
export async function startDev(options: DevOptions): Promise<{ stop(): Promise<void> }> {
  const { config, disk, clock, log, print, inboxPort, startDaemon, startCloud } = options;
  const directory = join(config.stateDir, 'mail');
  await disk.makeDirectory(config.stateDir);
  const mailbox = await openMailbox(disk, directory);
  const inbox = await Inbox.open(mailbox, () => clock.wallMs());
  const catcher = await openCatcher({
    clock,
    log,
    async onMail(mail) {
      print(showMail(mail, await inbox.keep(mail)));
    },
  });
  // Stopped in reverse: the daemon says goodbye to the cloud, and the cloud can send a mail to the catcher.
  const stops = [() => catcher.close()];
  const stop = async () => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next();
  };
  try {
    const served = await serveInbox({
      inbox,
      port: inboxPort,
      allowedHosts: config.allowedHosts,
      clock,
      log,
    });
    stops.push(() => served.close());
    const relay = { host: '127.0.0.1', port: catcher.port, tls: 'never', user: null } as const;
    const local = { ...config, relays: [relay], relayPassword: null, relayCa: null };
    const cloudServerPublicUrl = config.cloudServerPublicUrl ?? pageOf(config.cloudServerListen);
    const open = { ...local, cloudServerKeys: null, cloudServerWebhook: null, cloudServerPublicUrl };
    const cloud = await startCloud(open, async (message) => {
      print(showShort(message));
      inbox.keepShort(message);
      return { kind: 'taken', reply: 'shown' };
    });
    stops.push(() => cloud.stop());
    const url = `http://${cloud.address}`;
    const link = { url, deviceId: DEVICE, key: DEVICE, ca: null, clientCertificate: null };
    // The cloud's delay is short here. It must cover several heartbeats. The cloud takes whole milliseconds only.
    const heartbeatMs = Math.min(config.heartbeatMs, Math.floor(config.cloudServerDelayMs / 3));
    const daemon = await startDaemon({ ...local, cloud: link, heartbeatMs });
    stops.push(() => daemon.stop());
    const at = { api: daemon.address, cloud: url, inbox: served.address, directory };
    print(greeting(at, catcher.port, config.cloudServerDelayMs));
    return { stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The cloud's page, for the links of drills; null: the port is not known before the start. */
function pageOf(listeners: readonly ListenConfig[]): string | null {
  const tcp = listeners.find(({ kind }) => kind === 'tcp');
  return tcp?.kind === 'tcp' && tcp.port !== 0 ? `http://${showListener(tcp)}/` : null;
}

function greeting(
  at: Record<'api' | 'cloud' | 'inbox' | 'directory', string>,
  port: number,
  delayMs: number,
) {
  return `
Fieldpost is ready. Nothing leaves this machine.

  inbox            http://${at.inbox}/
  status page      http://${at.api}/
  cloud's page     ${at.cloud}/

  local API        http://${at.api}
  reference cloud  ${at.cloud}/devices/${DEVICE}
  mail catcher     127.0.0.1:${port}, mails kept in ${at.directory}

Try it in another terminal; mail, SMS, phone and push messages appear here and in the inbox:

  curl -i http://${at.api}/api/internal/messages -H 'Content-Type: application/json' \\
    -d '[{"type":1,"destination":"john@example.com","subject":"Hello","plain":"It works."}]'

The people in the address book are told when a device has been silent for ${delayMs / SECOND_MS} s
(FIELDPOST_CLOUD_SERVER_DELAY; the default of the reference cloud is 90 s).

Ctrl-C stops it; the queue is kept.

`;
}

/** The mail for a terminal, which no text of a message can control: its envelope, subject, text and attachments, and its file. */
export function showMail(mail: CaughtMail, path: string): string {
  const { subject, plain, html, attachments } = readMail(mail.raw);
  const lines = [
    `── ${inLine(path)}`,
    `From: ${inLine(mail.from || '<>')}`,
    `To: ${inLine(mail.to.join(', '))}`,
    `Subject: ${inLine(subject)}`,
  ];
  const text = plain || html;
  if (text) lines.push('', inText(text));
  if (plain && html) lines.push('', '[and the same as HTML]');
  if (attachments.length > 0) lines.push('');
  for (const { name, type, octets } of attachments) {
    const size = counted(octets.length, 'octet');
    lines.push(`[attached: ${inLine(name || 'without a name')}, ${inLine(type)}, ${size}]`);
  }
  return `${lines.join('\n')}\n\n`;
}

const SHORT_NAMES = { 2: 'SMS', 3: 'Phone call', 4: 'Push message' } as const;

/** An SMS, a phone call or a push message for a terminal. */
export function showShort({ type, destination, message, title = '' }: Omit<ShortMessage, 'id'>): string {
  const lines = [`── ${SHORT_NAMES[type]}`, `To: ${inLine(destination)}`];
  if (title !== '') lines.push(`Title: ${inLine(title)}`);
  return `${[...lines, '', inText(message)].join('\n')}\n\n`;
}

function inText(text: string): string {
  const shown = cut(text, TEXT_CHARS_MAX).replace(/\r\n?/g, '\n').trimEnd();
  return `${visible(shown, '\n\t')}${text.length > TEXT_CHARS_MAX ? '\n[and more]' : ''}`;
}

function inLine(text: string): string {
  return visible(text.replace(/[\n\t]/g, ' '));
}
