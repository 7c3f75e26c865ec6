/**
 * The texts in Polish.
 */
import { EN } from './en.js';
import { nounFor, type Words } from './words.js';

export const PL: Words = {
  ...EN,
  greeting: 'Szanowni Państwo,',
  subject: {
    ...EN.subject,
    silent: (device) => `${device} jest offline`,
    stopped: (device) => `${device}: urządzenie nadal wyłączone`,
    back: (device) => `${device} jest ponownie online`,
  },
  sentence: {
    ...EN.sentence,
    silent: (device) => `urządzenie „${device}” jest offline: nie otrzymujemy już od niego sygnałów.`,
    stopped: (device) =>
      `urządzenie „${device}” zostało planowo wyłączone i nie uruchomiło się jeszcze ponownie.`,
    back: (device) => `urządzenie „${device}” jest ponownie online.`,
  },
  moment: { ...EN.moment, silent: 'Ostatni sygnał', stopped: 'Wyłączone od', back: 'Ponownie online od' },
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
  sms: {
    subject: { back: (device) => `${device} jest znowu online` },
    day: (day, month) => `${day}.${String(month).padStart(2, '0')}`,
    at: (day, time) => `${day}, godz. ${time}`,
    moment: { ...EN.sms.moment, silent: '. Ostatni sygnał: ', stopped: ', od ', back: ' od ' },
    lasted: 'Przerwa: ',
  },
  digest: {
    ...EN.digest,
    subject: {
      offline: (count) => `${count} ${devices(count)} offline`,
      back: (count) => `${count} ${devices(count)} ponownie online`,
    },
    signals: ': nie otrzymujemy już od nich sygnałów.',
    since: 'od',
    more: (count) => `i jeszcze ${count}`,
    promise: 'Powiadomimy Państwa, gdy tylko urządzenia będą ponownie online.',
  },
};

/** `22 urządzenia są`, but `25 urządzeń jest`. */
function devices(count: number): string {
  return `${nounFor(count, 'urządzenie urządzenia urządzeń')} ${nounFor(count, 'jest są jest')}`;
}
