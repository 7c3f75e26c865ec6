/**
 * The words of SMS, in each language. Their letters are those of the SMS alphabet where the language allows; gsm.ts folds
 * the others.
 */
import type { Lang } from '../base/langs.js';

/** One language's words. `at`: ` ` and a moment; '' if it is not known. */
interface SmsPhrases {
  /** A moment: day and month (from 1) as numbers, and the time of day. */
  readonly at: (day: number, month: number, time: string) => string;
  readonly silent: (device: string) => string;
  readonly stopped: (device: string) => string;
  readonly back: (device: string) => string;
  /** Joins each of these sentences with its moment. */
  readonly moment: Readonly<Record<'silent' | 'stopped' | 'back', string>>;
  readonly lasted: string;
  /** Before the device's site, and the person to call. */
  readonly site: string;
  readonly contact: string;
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

export const SMS_PHRASES: Readonly<Record<Lang, SmsPhrases>> = {
  nl: {
    at: (day, month, time) => `${day}-${month} om ${time}`,
    silent: (device) => `${device} is offline`,
    stopped: (device) => `${device} is nog uitgeschakeld`,
    back: (device) => `${device} is weer online`,
    moment: { silent: '. Laatste signaal: ', stopped: ' sinds ', back: ' sinds ' },
    lasted: 'Onderbreking: ',
    site: 'Locatie: ',
    contact: 'Contact: ',
  },
  fr: {
    at: (day, month, time) => `${day}/${month} à ${time}`,
    silent: (device) => `${device} est hors ligne`,
    stopped: (device) => `L'appareil ${device} est toujours éteint`,
    back: (device) => `${device} est de nouveau en ligne`,
    moment: { silent: '. Dernier signal le ', stopped: ' depuis le ', back: ' depuis le ' },
    lasted: 'Interruption : ',
    site: 'Site : ',
    contact: 'Contact : ',
  },
  de: {
    at: (day, month, time) => `${day}.${month}., ${time} Uhr`,
    silent: (device) => `${device} ist offline`,
    stopped: (device) => `${device} ist noch ausgeschaltet`,
    back: (device) => `${device} ist wieder online`,
    moment: { silent: '. Letztes Signal: ', stopped: ', seit ', back: ', seit ' },
    lasted: 'Unterbrechung: ',
    site: 'Standort: ',
    contact: 'Kontakt: ',
  },
  en: {
    at: (day, month, time) => `${day} ${MONTHS[month - 1]}, ${time}`,
    silent: (device) => `${device} is offline`,
    stopped: (device) => `${device} is still shut down`,
    back: (device) => `${device} is back online`,
    moment: { silent: '. Last signal: ', stopped: ', since ', back: ', since ' },
    lasted: 'Outage: ',
    site: 'Site: ',
    contact: 'Contact: ',
  },
  it: {
    at: (day, month, time) => `${day}/${month}, ore ${time}`,
    silent: (device) => `${device} è offline`,
    stopped: (device) => `Il dispositivo ${device} è ancora spento`,
    back: (device) => `${device} è di nuovo online`,
    moment: { silent: '. Ultimo segnale: ', stopped: ', dal ', back: ' dal ' },
    lasted: 'Interruzione: ',
    site: 'Luogo: ',
    contact: 'Contatto: ',
  },
  pl: {
    at: (day, month, time) => `${day}.${String(month).padStart(2, '0')}, godz. ${time}`,
    silent: (device) => `${device} jest offline`,
    stopped: (device) => `${device}: urządzenie nadal wyłączone`,
    back: (device) => `${device} jest znowu online`,
    moment: { silent: '. Ostatni sygnał: ', stopped: ', od ', back: ' od ' },
    lasted: 'Przerwa: ',
    site: 'Lokalizacja: ',
    contact: 'Kontakt: ',
  },
  es: {
    // "está sin conexión" has two letters that are not in the alphabet.
    at: (day, month, time) => `${day}/${month}, ${time} h`,
    silent: (device) => `${device} no responde`,
    stopped: (device) => `El equipo ${device} sigue apagado`,
    back: (device) => `${device} responde de nuevo`,
    moment: { silent: ' desde el ', stopped: ' desde el ', back: ' desde el ' },
    lasted: 'Sin respuesta durante ',
    site: 'Lugar: ',
    contact: 'Contacto: ',
  },
};
