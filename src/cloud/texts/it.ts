/**
 * The texts in Italian.
 */
import { EN } from './en.js';
import type { Words } from './words.js';

export const IT: Words = {
  ...EN,
  greeting: 'Gentile utente,',
  subject: {
    ...EN.subject,
    silent: (device) => `${device} è offline`,
    stopped: (device) => `${device}: dispositivo ancora spento`,
    back: (device) => `${device} è di nuovo online`,
  },
  sentence: {
    ...EN.sentence,
    silent: (device) => `il dispositivo «${device}» è offline: non ne riceviamo più alcun segnale.`,
    stopped: (device) =>
      `il dispositivo «${device}» è stato spento come previsto e non è ancora tornato online.`,
    back: (device) => `il dispositivo «${device}» è di nuovo online.`,
  },
  moment: { ...EN.moment, silent: 'Ultimo segnale', stopped: 'Spento dal', back: 'Di nuovo online dal' },
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
  sms: {
    subject: { stopped: (device) => `Il dispositivo ${device} è ancora spento` },
    day: (day, month) => `${day}/${month}`,
    at: (day, time) => `${day}, ore ${time}`,
    moment: { ...EN.sms.moment, silent: '. Ultimo segnale: ', stopped: ', dal ', back: ' dal ' },
    lasted: 'Interruzione: ',
  },
  digest: {
    ...EN.digest,
    subject: {
      offline: (count) => `${count} dispositivi sono offline`,
      back: (count) => `${count} dispositivi sono di nuovo online`,
    },
    signals: ': non ne riceviamo più alcun segnale.',
    since: 'dal',
    more: (count) => (count === 1 ? 'e un altro' : `e altri ${count}`),
    promise: 'Riceverà un messaggio non appena i dispositivi saranno di nuovo online.',
  },
};
