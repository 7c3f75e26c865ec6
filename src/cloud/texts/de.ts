/**
 * The texts in German.
 */
import { EN } from './en.js';
import type { Words } from './words.js';

export const DE: Words = {
  ...EN,
  greeting: 'Hallo,',
  subject: {
    ...EN.subject,
    silent: (device) => `${device} ist offline`,
    stopped: (device) => `${device} ist noch ausgeschaltet`,
    back: (device) => `${device} ist wieder online`,
  },
  sentence: {
    ...EN.sentence,
    silent: (device) => `das Gerät „${device}“ ist offline: Wir empfangen keine Signale mehr von ihm.`,
    stopped: (device) =>
      `das Gerät „${device}“ wurde planmäßig ausgeschaltet und ist noch nicht wieder online.`,
    back: (device) => `das Gerät „${device}“ ist wieder online.`,
  },
  moment: {
    ...EN.moment,
    silent: 'Letztes Signal',
    stopped: 'Ausgeschaltet seit',
    back: 'Wieder online seit',
  },
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
  sms: {
    day: (day, month) => `${day}.${month}.`,
    at: (day, time) => `${day}, ${time} Uhr`,
    moment: { ...EN.sms.moment, silent: '. Letztes Signal: ', stopped: ', seit ', back: ', seit ' },
    lasted: 'Unterbrechung: ',
  },
  digest: {
    ...EN.digest,
    subject: {
      offline: (count) => `${count} Geräte sind offline`,
      back: (count) => `${count} Geräte sind wieder online`,
    },
    signals: ': Wir empfangen keine Signale mehr von ihnen.',
    since: 'seit',
    more: (count) => `und ${count} ${count === 1 ? 'weiteres' : 'weitere'}`,
    promise: 'Sie erhalten eine Nachricht, sobald die Geräte wieder online sind.',
  },
};
