/**
 * The words of digests, in each language. A digest is about more than DIGEST_DEVICES devices, so only Polish needs forms
 * of its plural.
 */
import type { Lang } from '../base/langs.js';
import { nounFor } from './spans.js';

/** A digest says that devices are offline, or that they are back. */
export type Direction = 'offline' | 'back';

/** One language's words. */
interface DigestPhrases {
  readonly subject: Readonly<Record<Direction, (count: number) => string>>;
  /** The same within the alphabet of SMS, where that needs other words. */
  readonly sms?: DigestPhrases['subject'];
  /** Follows the subject of `offline` in a mail. */
  readonly signals: string;
  /** Before the moment of the first news. */
  readonly since: string;
  /** Follows the names that are listed. */
  readonly more: (count: number) => string;
  /** Promises a message when the devices return. */
  readonly promise: string;
}

export const DIGEST_PHRASES: Readonly<Record<Lang, DigestPhrases>> = {
  nl: {
    subject: {
      offline: (count) => `${count} apparaten zijn offline`,
      back: (count) => `${count} apparaten zijn weer online`,
    },
    signals: ': we ontvangen er geen signalen meer van.',
    since: 'sinds',
    more: (count) => `en nog ${count}`,
    promise: 'U krijgt bericht zodra de apparaten weer online zijn.',
  },
  fr: {
    subject: {
      offline: (count) => `${count} appareils sont hors ligne`,
      back: (count) => `${count} appareils sont de nouveau en ligne`,
    },
    signals: '\u00a0: nous n’en recevons plus aucun signal.',
    since: 'depuis le',
    more: (count) => `et ${count} ${count === 1 ? 'autre' : 'autres'}`,
    promise: 'Vous recevrez un message dès que les appareils seront de nouveau en ligne.',
  },
  de: {
    subject: {
      offline: (count) => `${count} Geräte sind offline`,
      back: (count) => `${count} Geräte sind wieder online`,
    },
    signals: ': Wir empfangen keine Signale mehr von ihnen.',
    since: 'seit',
    more: (count) => `und ${count} ${count === 1 ? 'weiteres' : 'weitere'}`,
    promise: 'Sie erhalten eine Nachricht, sobald die Geräte wieder online sind.',
  },
  en: {
    subject: {
      offline: (count) => `${count} devices are offline`,
      back: (count) => `${count} devices are back online`,
    },
    signals: ': we no longer receive any signal from them.',
    since: 'since',
    more: (count) => `and ${count} more`,
    promise: 'You will get a message as soon as the devices are back online.',
  },
  it: {
    subject: {
      offline: (count) => `${count} dispositivi sono offline`,
      back: (count) => `${count} dispositivi sono di nuovo online`,
    },
    signals: ': non ne riceviamo più alcun segnale.',
    since: 'dal',
    more: (count) => (count === 1 ? 'e un altro' : `e altri ${count}`),
    promise: 'Riceverà un messaggio non appena i dispositivi saranno di nuovo online.',
  },
  pl: {
    subject: {
      offline: (count) => `${count} ${polishDevices(count)} offline`,
      back: (count) => `${count} ${polishDevices(count)} ponownie online`,
    },
    signals: ': nie otrzymujemy już od nich sygnałów.',
    since: 'od',
    more: (count) => `i jeszcze ${count}`,
    promise: 'Powiadomimy Państwa, gdy tylko urządzenia będą ponownie online.',
  },
  es: {
    subject: {
      offline: (count) => `${count} dispositivos están sin conexión`,
      back: (count) => `${count} dispositivos vuelven a estar en línea`,
    },
    sms: {
      offline: (count) => `${count} equipos no responden`,
      back: (count) => `${count} equipos responden de nuevo`,
    },
    signals: ': ya no recibimos señales de ellos.',
    since: 'desde el',
    more: (count) => `y ${count} más`,
    promise: 'Recibirá un mensaje en cuanto los dispositivos vuelvan a estar en línea.',
  },
};

/** `22 urządzenia są`, but `25 urządzeń jest`. */
function polishDevices(count: number): string {
  return `${nounFor(count, 'urządzenie urządzenia urządzeń')} ${nounFor(count, 'jest są jest')}`;
}
