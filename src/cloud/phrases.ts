/**
 * All words of the notifications, in each language. A fact follows a label ("Outage lasted: 5 minutes"), so that dates
 * and numbers need no grammar of the sentence around them. Plurals and dates are own tables: they are the same on every
 * build of Node, and loading Intl takes 8 MB.
 */
import type { Lang } from '../base/langs.js';

/** One language's words. `device` is a name, shown unchanged. */
interface Phrases {
  /** Suits any hour, because the time and place of reading are unknown. */
  readonly greeting: string;
  /** Subjects of mails, also the first words of calls and push messages. */
  readonly subject: Readonly<Record<Kind, (device: string) => string>>;
  /**
   * Sentences: the device fell silent; it announced a stop and did not return; it is back. They follow the greeting: after
   * its comma German, Italian and Polish go on with a small letter.
   */
  readonly sentence: Readonly<Record<Kind, (device: string) => string>>;
  /** Labels of facts. `moment`: when it happened. */
  readonly moment: Readonly<Record<Kind, string>>;
  readonly lasted: string;
  readonly site: string;
  /** Whom to call. */
  readonly contact: string;
  /** Separates a label from its fact. */
  readonly colon: string;
  /** Promises a message when the device returns. */
  readonly promise: string;
  readonly closing: string;
  /** Before the URL of a page. */
  readonly overview: string;
  /**
   * Day, hour, minute, second, each in its forms after a number: one; several; and, if it differs, many (Polish 5, 12,
   * 25).
   */
  readonly units: readonly [string, string, string, string];
  /** Joins two lengths of time. */
  readonly and: string;
  /** January to December, in the form used in dates. */
  readonly months: string;
  readonly date: (day: number, month: string, year: number) => string;
  /** The time of day, to follow the date. */
  readonly time: (time: string) => string;
}

type Kind = 'silent' | 'stopped' | 'back';

const dayMonthYear: Phrases['date'] = (day, month, year) => `${day} ${month} ${year}`;

/** French wants a no-break space before a colon and within its quotation marks. */
const NBSP = '\u00a0';

export const PHRASES: Readonly<Record<Lang, Phrases>> = {
  nl: {
    greeting: 'Hallo,',
    subject: {
      silent: (device) => `${device} is offline`,
      stopped: (device) => `${device} is nog uitgeschakeld`,
      back: (device) => `${device} is weer online`,
    },
    sentence: {
      silent: (device) => `Het apparaat “${device}” is offline: we ontvangen er geen signalen meer van.`,
      stopped: (device) =>
        `Het apparaat “${device}” is volgens plan uitgeschakeld en is nog niet weer online.`,
      back: (device) => `Het apparaat “${device}” is weer online.`,
    },
    moment: { silent: 'Laatste signaal', stopped: 'Uitgeschakeld sinds', back: 'Weer online sinds' },
    lasted: 'Duur van de onderbreking',
    site: 'Locatie',
    contact: 'Contact',
    colon: ': ',
    promise: 'U krijgt bericht zodra het apparaat weer online is.',
    closing: 'Dit bericht is automatisch verzonden.',
    overview: 'Overzicht van uw apparaten',
    units: ['dag dagen', 'uur uur', 'minuut minuten', 'seconde seconden'],
    and: 'en',
    months: 'januari februari maart april mei juni juli augustus september oktober november december',
    date: dayMonthYear,
    time: (time) => ` om ${time} uur`,
  },
  fr: {
    greeting: 'Madame, Monsieur,',
    subject: {
      silent: (device) => `${device} est hors ligne`,
      stopped: (device) => `${device} est toujours à l’arrêt`,
      back: (device) => `${device} est de nouveau en ligne`,
    },
    sentence: {
      silent: (device) =>
        `L’appareil «${NBSP}${device}${NBSP}» est hors ligne${NBSP}: nous n’en recevons plus aucun signal.`,
      stopped: (device) =>
        `L’appareil «${NBSP}${device}${NBSP}» a été arrêté comme prévu et n’est pas encore revenu en ligne.`,
      back: (device) => `L’appareil «${NBSP}${device}${NBSP}» est de nouveau en ligne.`,
    },
    moment: { silent: 'Dernier signal', stopped: 'Arrêt', back: 'Retour en ligne' },
    lasted: 'Durée de l’interruption',
    site: 'Site',
    contact: 'Contact',
    colon: `${NBSP}: `,
    promise: 'Vous recevrez un message dès que l’appareil sera de nouveau en ligne.',
    closing: 'Ce message a été envoyé automatiquement.',
    overview: 'Vue d’ensemble de vos appareils',
    units: ['jour jours', 'heure heures', 'minute minutes', 'seconde secondes'],
    and: 'et',
    months: 'janvier février mars avril mai juin juillet août septembre octobre novembre décembre',
    date: (day, month, year) => `${day === 1 ? '1er' : day} ${month} ${year}`,
    time: (time) => ` à ${time}`,
  },
  de: {
    greeting: 'Hallo,',
    subject: {
      silent: (device) => `${device} ist offline`,
      stopped: (device) => `${device} ist noch ausgeschaltet`,
      back: (device) => `${device} ist wieder online`,
    },
    sentence: {
      silent: (device) => `das Gerät „${device}“ ist offline: Wir empfangen keine Signale mehr von ihm.`,
      stopped: (device) =>
        `das Gerät „${device}“ wurde planmäßig ausgeschaltet und ist noch nicht wieder online.`,
      back: (device) => `das Gerät „${device}“ ist wieder online.`,
    },
    moment: { silent: 'Letztes Signal', stopped: 'Ausgeschaltet seit', back: 'Wieder online seit' },
    lasted: 'Dauer der Unterbrechung',
    site: 'Standort',
    contact: 'Kontakt',
    colon: ': ',
    promise: 'Sie erhalten eine Nachricht, sobald das Gerät wieder online ist.',
    closing: 'Diese Nachricht wurde automatisch versandt.',
    overview: 'Übersicht Ihrer Geräte',
    units: ['Tag Tage', 'Stunde Stunden', 'Minute Minuten', 'Sekunde Sekunden'],
    and: 'und',
    months: 'Januar Februar März April Mai Juni Juli August September Oktober November Dezember',
    date: (day, month, year) => `${day}. ${month} ${year}`,
    time: (time) => `, ${time} Uhr`,
  },
  en: {
    greeting: 'Hello,',
    subject: {
      silent: (device) => `${device} is offline`,
      stopped: (device) => `${device} is still shut down`,
      back: (device) => `${device} is back online`,
    },
    sentence: {
      silent: (device) => `The device “${device}” is offline: we no longer receive any signal from it.`,
      stopped: (device) => `The device “${device}” was shut down as planned and has not come back.`,
      back: (device) => `The device “${device}” is back online.`,
    },
    moment: { silent: 'Last signal', stopped: 'Shut down since', back: 'Back online since' },
    lasted: 'Outage lasted',
    site: 'Site',
    contact: 'Contact',
    colon: ': ',
    promise: 'You will get a message as soon as the device is back online.',
    closing: 'This message was sent automatically.',
    overview: 'Overview of your devices',
    units: ['day days', 'hour hours', 'minute minutes', 'second seconds'],
    and: 'and',
    months: 'January February March April May June July August September October November December',
    date: dayMonthYear,
    time: (time) => `, ${time}`,
  },
  it: {
    greeting: 'Gentile utente,',
    subject: {
      silent: (device) => `${device} è offline`,
      stopped: (device) => `${device}: dispositivo ancora spento`,
      back: (device) => `${device} è di nuovo online`,
    },
    sentence: {
      silent: (device) => `il dispositivo «${device}» è offline: non ne riceviamo più alcun segnale.`,
      stopped: (device) =>
        `il dispositivo «${device}» è stato spento come previsto e non è ancora tornato online.`,
      back: (device) => `il dispositivo «${device}» è di nuovo online.`,
    },
    moment: { silent: 'Ultimo segnale', stopped: 'Spento dal', back: 'Di nuovo online dal' },
    lasted: 'Durata dell’interruzione',
    site: 'Luogo',
    contact: 'Contatto',
    colon: ': ',
    promise: 'Riceverà un messaggio non appena il dispositivo sarà di nuovo online.',
    closing: 'Questo messaggio è stato inviato automaticamente.',
    overview: 'Panoramica dei dispositivi',
    units: ['giorno giorni', 'ora ore', 'minuto minuti', 'secondo secondi'],
    and: 'e',
    months: 'gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre',
    date: (day, month, year) => `${day === 1 ? '1º' : day} ${month} ${year}`,
    time: (time) => `, ore ${time}`,
  },
  pl: {
    greeting: 'Szanowni Państwo,',
    subject: {
      silent: (device) => `${device} jest offline`,
      stopped: (device) => `${device}: urządzenie nadal wyłączone`,
      back: (device) => `${device} jest ponownie online`,
    },
    sentence: {
      silent: (device) => `urządzenie „${device}” jest offline: nie otrzymujemy już od niego sygnałów.`,
      stopped: (device) =>
        `urządzenie „${device}” zostało planowo wyłączone i nie uruchomiło się jeszcze ponownie.`,
      back: (device) => `urządzenie „${device}” jest ponownie online.`,
    },
    moment: { silent: 'Ostatni sygnał', stopped: 'Wyłączone od', back: 'Ponownie online od' },
    lasted: 'Czas trwania przerwy',
    site: 'Lokalizacja',
    contact: 'Kontakt',
    colon: ': ',
    promise: 'Powiadomimy Państwa, gdy tylko urządzenie będzie ponownie online.',
    closing: 'Ta wiadomość została wysłana automatycznie.',
    overview: 'Przegląd urządzeń',
    units: ['dzień dni dni', 'godzina godziny godzin', 'minuta minuty minut', 'sekunda sekundy sekund'],
    and: 'i',
    months:
      'stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia',
    date: (day, month, year) => `${day} ${month} ${year} r.`,
    time: (time) => `, godz. ${time}`,
  },
  es: {
    greeting: 'Hola:',
    subject: {
      silent: (device) => `${device} está sin conexión`,
      stopped: (device) => `${device}: el dispositivo sigue apagado`,
      back: (device) => `${device} vuelve a estar en línea`,
    },
    sentence: {
      silent: (device) => `El dispositivo «${device}» está sin conexión: ya no recibimos señales de él.`,
      stopped: (device) =>
        `El dispositivo «${device}» se apagó según lo previsto y aún no ha vuelto a conectarse.`,
      back: (device) => `El dispositivo «${device}» vuelve a estar en línea.`,
    },
    moment: { silent: 'Última señal', stopped: 'Apagado desde el', back: 'En línea desde el' },
    lasted: 'Duración de la interrupción',
    site: 'Ubicación',
    contact: 'Contacto',
    colon: ': ',
    promise: 'Recibirá un mensaje en cuanto el dispositivo vuelva a estar en línea.',
    closing: 'Este mensaje se ha enviado automáticamente.',
    overview: 'Resumen de sus dispositivos',
    units: ['día días', 'hora horas', 'minuto minutos', 'segundo segundos'],
    and: 'y',
    months: 'enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre',
    date: (day, month, year) => `${day} de ${month} de ${year}`,
    time: (time) => `, ${time} h`,
  },
};
