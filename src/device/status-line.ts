/**
 * The line of `systemctl status` about the state of the daemon. Pure.
 */
import type {
  LINK_STATES,
  LinkView,
  QueueCounts,
  RelayView,
  SettingsFault,
  StorageState,
} from '../base/views.js';

/** The parts of the line. */
export interface Doing {
  readonly queue: QueueCounts;
  /** Why the queue takes no ordinary message; null while it does. */
  readonly fullReason: string | null;
  readonly relay: Pick<RelayView, 'state' | 'reason'>;
  readonly link: Pick<LinkView, 'reason'> & { readonly state: (typeof LINK_STATES)[number] };
  readonly storage: Pick<StorageState, 'state' | 'reason'>;
  readonly settings: SettingsFault | null;
}

const RELAY = {
  none: 'no relay',
  unknown: 'relay not tried yet',
  ok: 'relay ok',
  failing: 'relay failing',
  refusing: 'relay refusing',
};

/** The queue, the relay and the link; storage and settings only with a fault. Time alone changes nothing in it. */
export function statusLine({ queue, fullReason, relay, link, storage, settings }: Doing): string {
  const waiting = queue.queued + queue.sending;
  const parts = [
    settings === null ? '' : `settings refused (${settings.reason})`,
    `${waiting} queued${queue.held ? ' (on hold)' : ''}`,
    fullReason === null ? '' : `queue full (${fullReason})`,
    queue.deferred > 0 ? `${queue.deferred} deferred` : '',
    queue.failed > 0 ? `${queue.failed} failed` : '',
    `${relay.state === 'unknown' && relay.reason !== null ? 'relay has taken nothing yet' : RELAY[relay.state]}${because(relay.reason)}`,
    `cloud ${link.state}${link.state === 'disabled' ? '' : because(link.reason)}`,
    storage.state === 'ok' ? '' : `storage ${storage.state}${because(storage.reason)}`,
  ];
  return parts.filter((part) => part !== '').join(', ');
}

function because(reason: string | null): string {
  return reason === null ? '' : ` (${reason})`;
}
