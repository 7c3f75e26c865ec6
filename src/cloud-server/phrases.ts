/**
 * What people are told when a device goes offline and comes back, in each language. Facts stand behind a label
 * ("Duration of the outage: 5 minutes"), so that no date and no number has to bend to the sentence around it.
 * Used by texts.ts.
 */
import type { Lang } from '../destinations/destination.js';

/** One language's words. `device` is a name, to be shown as it is. */
export interface Phrases {
  readonly greeting: string;
  /** Subjects, and the first words of short texts. */
  readonly offline: (device: string) => string;
  readonly online: (device: string) => string;
  /** Sentences: it fell silent; it said that it was stopping and did not return; it is back. */
  readonly silent: (device: string) => string;
  readonly stopped: (device: string) => string;
  readonly back: (device: string) => string;
  /** Labels of facts. */
  readonly lastHeard: string;
  readonly stoppedAt: string;
  readonly backSince: string;
  readonly lasted: string;
  /** Between a label and its fact. */
  readonly colon: string;
  /** That the return will be told. */
  readonly promise: string;
  readonly closing: string;
}

export const PHRASES: Readonly<Record<Lang, Phrases>> = {
  nl: {
    greeting: 'Goedendag,',
    offline: (device) => `${device} is offline`,
    online: (device) => `${device} is weer online`,
    silent: (device) => `Het apparaat “${device}” is offline: we ontvangen er geen signalen meer van.`,
    stopped: (device) => `Het apparaat “${device}” heeft zich afgemeld en is nog niet teruggekomen.`,
    back: (device) => `Het apparaat “${device}” is weer bereikbaar.`,
    lastHeard: 'Laatste levensteken',
    stoppedAt: 'Afgemeld op',
    backSince: 'Weer bereikbaar sinds',
    lasted: 'Duur van de onderbreking',
    colon: ': ',
    promise: 'U ontvangt bericht zodra het apparaat weer bereikbaar is.',
    closing: 'Dit bericht is automatisch verzonden.',
  },
  fr: {
    greeting: 'Bonjour,',
    offline: (device) => `${device} est hors ligne`,
    online: (device) => `${device} est de nouveau en ligne`,
    silent: (device) => `L'appareil « ${device} » est hors ligne : nous n'en recevons plus aucun signal.`,
    stopped: (device) =>
      `L'appareil « ${device} » s'est déconnecté normalement et n'est pas encore revenu en ligne.`,
    back: (device) => `L'appareil « ${device} » est de nouveau joignable.`,
    lastHeard: 'Dernier signe de vie',
    stoppedAt: 'Déconnecté depuis',
    backSince: 'De nouveau joignable depuis',
    lasted: "Durée de l'interruption",
    colon: ' : ',
    promise: "Vous recevrez un message dès que l'appareil sera de nouveau joignable.",
    closing: 'Ce message a été envoyé automatiquement.',
  },
  de: {
    greeting: 'Guten Tag,',
    offline: (device) => `${device} ist offline`,
    online: (device) => `${device} ist wieder online`,
    silent: (device) => `Das Gerät „${device}“ ist offline: Wir empfangen keine Signale mehr von ihm.`,
    stopped: (device) => `Das Gerät „${device}“ hat sich abgemeldet und ist noch nicht zurückgekehrt.`,
    back: (device) => `Das Gerät „${device}“ ist wieder erreichbar.`,
    lastHeard: 'Letztes Lebenszeichen',
    stoppedAt: 'Abgemeldet am',
    backSince: 'Wieder erreichbar seit',
    lasted: 'Dauer der Unterbrechung',
    colon: ': ',
    promise: 'Sie erhalten eine Nachricht, sobald das Gerät wieder erreichbar ist.',
    closing: 'Diese Nachricht wurde automatisch versandt.',
  },
  en: {
    greeting: 'Hello,',
    offline: (device) => `${device} is offline`,
    online: (device) => `${device} is online again`,
    silent: (device) => `The device “${device}” is offline: we no longer receive any signal from it.`,
    stopped: (device) => `The device “${device}” signed off and has not come back yet.`,
    back: (device) => `The device “${device}” is reachable again.`,
    lastHeard: 'Last sign of life',
    stoppedAt: 'Signed off on',
    backSince: 'Reachable again since',
    lasted: 'Duration of the outage',
    colon: ': ',
    promise: 'You will receive a message as soon as the device is reachable again.',
    closing: 'This message was sent automatically.',
  },
  it: {
    greeting: 'Buongiorno,',
    offline: (device) => `${device} è offline`,
    online: (device) => `${device} è di nuovo online`,
    silent: (device) => `Il dispositivo «${device}» è offline: non ne riceviamo più alcun segnale.`,
    stopped: (device) =>
      `Il dispositivo «${device}» si è disconnesso regolarmente e non è ancora tornato in linea.`,
    back: (device) => `Il dispositivo «${device}» è di nuovo raggiungibile.`,
    lastHeard: 'Ultimo segnale ricevuto',
    stoppedAt: 'Disconnesso il',
    backSince: 'Ritorno in linea',
    lasted: "Durata dell'interruzione",
    colon: ': ',
    promise: 'Riceverà un messaggio non appena il dispositivo sarà di nuovo raggiungibile.',
    closing: 'Questo messaggio è stato inviato automaticamente.',
  },
  pl: {
    greeting: 'Dzień dobry,',
    offline: (device) => `${device} jest offline`,
    online: (device) => `${device} jest ponownie online`,
    silent: (device) => `Urządzenie „${device}” jest offline: nie otrzymujemy od niego żadnych sygnałów.`,
    stopped: (device) => `Urządzenie „${device}” zakończyło pracę w sposób planowy i jeszcze nie wróciło.`,
    back: (device) => `Urządzenie „${device}” jest ponownie dostępne.`,
    lastHeard: 'Ostatni sygnał',
    stoppedAt: 'Zakończenie pracy',
    backSince: 'Ponownie dostępne od',
    lasted: 'Czas trwania przerwy',
    colon: ': ',
    promise: 'Powiadomimy Państwa, gdy tylko urządzenie będzie ponownie dostępne.',
    closing: 'Ta wiadomość została wysłana automatycznie.',
  },
  es: {
    greeting: 'Buenos días:',
    offline: (device) => `${device} está sin conexión`,
    online: (device) => `${device} vuelve a estar en línea`,
    silent: (device) => `El dispositivo «${device}» está sin conexión: ya no recibimos señales de él.`,
    stopped: (device) => `El dispositivo «${device}» se desconectó de forma ordenada y aún no ha vuelto.`,
    back: (device) => `El dispositivo «${device}» vuelve a estar disponible.`,
    lastHeard: 'Última señal recibida',
    stoppedAt: 'Desconectado desde',
    backSince: 'Disponible de nuevo desde',
    lasted: 'Duración de la interrupción',
    colon: ': ',
    promise: 'Recibirá un mensaje en cuanto el dispositivo vuelva a estar disponible.',
    closing: 'Este mensaje se ha enviado automáticamente.',
  },
};
