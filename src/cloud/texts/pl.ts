/**
 * The texts in Polish.
 */
import { nounFor, type Point, type Words } from './words.js';

const at = ({ day, time }: Point) => (day === null ? `godz. ${time}` : `${day}, godz. ${time}`);

/** Behind "już". */
const accusative = (span: string) => span.replace(/(?<=godzin|minut|sekund)a/g, 'ę');

const breaks = (times: number) => `${times} ${nounFor(times, 'przerwa przerwy przerw')}`;

export const PL: Words = {
  greeting: 'Szanowni Państwo,',
  subject: {
    silent: (device) => `${device} jest offline`,
    stopped: (device) => `${device}: urządzenie nadal wyłączone`,
    back: (device) => `${device} jest ponownie online`,
    // A noun in place of a verb in the past: a name may be of any gender.
    was: (device, when) => `${device}: ${when ?? 'przerwa w łączności zakończona'}`,
    quiet: (device, until) => `${device} ma wyciszone powiadomienia ${until}`,
    word: (device) => `${device}, ostatnia wiadomość`,
    still: (device, span) =>
      `${device} nadal jest offline${span === null ? '' : `, już ${accusative(span)}`}`,
    stuck: (device) => `${device} jest online, ale nie wysyła e-maili`,
    flows: (device) => `${device} ponownie wysyła e-maile`,
    drill: (device) => `TEST: tak powiadomi Państwa ${device}`,
  },
  sentence: {
    silent: (device) => `urządzenie „${device}” jest offline: nie otrzymujemy już od niego sygnałów.`,
    stopped: (device) =>
      `urządzenie „${device}” zostało planowo wyłączone i nie uruchomiło się jeszcze ponownie.`,
    back: (device) => `urządzenie „${device}” jest ponownie online.`,
    was: (device) =>
      `urządzenie „${device}” było offline poza Państwa godzinami powiadomień. Jest już ponownie online.`,
    quiet: (device) => `urządzenie „${device}” ma wyciszone powiadomienia.`,
    word: (device) =>
      `urządzenie „${device}” wysłało ostatnią wiadomość. Wkrótce może przejść w tryb offline.`,
    still: (device) => `urządzenie „${device}” nadal jest offline: nie otrzymujemy od niego sygnałów.`,
    stuck: (device) => `urządzenie „${device}” jest online, ale jego e-maile nie są wysyłane.`,
    flows: (device) => `urządzenie „${device}” ponownie wysyła e-maile.`,
    drill: (device) =>
      `to jest test: nic się nie stało. Taką wiadomość otrzymają Państwo, gdy urządzenie „${device}” będzie offline.`,
  },
  moment: {
    silent: 'Ostatni sygnał',
    stopped: 'Wyłączone od',
    back: 'Ponownie online od',
    quiet: 'Wyciszone do',
    word: 'Wysłano',
    still: 'Ostatni sygnał',
    stuck: 'Od',
    flows: 'Od',
  },
  lasted: 'Czas trwania przerwy',
  site: 'Lokalizacja',
  contact: 'Kontakt',
  colon: ': ',
  why: {
    ran: 'Urządzenie działało cały czas: nie było połączenia z siecią.',
    restarted: (up) => `Zanik zasilania lub restart${up === null ? '' : `, czas pracy: ${up}`}.`,
  },
  flaps: (times, since) => {
    const said = `${nounFor(times, 'była były było')} ${breaks(times)}`;
    return since === null ? `Łącznie ${said}.` : `Od ${at(since)} ${said}.`;
  },
  lastWord: 'Ostatnia wiadomość',
  was: { from: 'Od', to: 'Do', times: 'Liczba przerw' },
  quiet: {
    why: 'Powód',
    means:
      'Do tego czasu nikt nie zostanie powiadomiony, gdy urządzenie będzie offline. Jeśli później nadal będzie offline, powiadomimy Państwa.',
  },
  lastsFor: 'Trwa już',
  stuck: {
    relay: 'Serwer poczty',
    states: { failing: 'awaria', refusing: 'odrzuca e-maile' },
    failed: 'Nieudane wysyłki',
    promise: 'Powiadomimy Państwa, gdy tylko e-maile będą ponownie wysyłane.',
  },
  drill: {
    confirm: 'Czy widzą Państwo tę wiadomość? Prosimy otworzyć tę stronę i nacisnąć przycisk',
    seen: 'Dotarło?',
    device: 'urządzenie',
    brief: 'TEST.',
  },
  when: {
    until: (moment) => `do ${at(moment)}`,
    period: (from, to) => `przerwa w łączności ${range(from, to)}`,
    repeated: (times, from, to) => {
      const said = `${breaks(times)} w łączności`;
      return to.day === null
        ? `${said} ${from.day} w godz. ${from.time}-${to.time}`
        : `${said} ${range(from, to)}`;
    },
  },
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
    moment: {
      silent: '. Ostatni sygnał: ',
      stopped: ', od ',
      back: ' od ',
      word: '. Wysłano: ',
      still: '. Ostatni sygnał: ',
      stuck: ' od ',
      flows: ' od ',
    },
    lasted: 'Przerwa: ',
  },
  digest: {
    subject: {
      offline: (count) => `${count} ${devices(count)} offline`,
      back: (count) => `${count} ${devices(count)} ponownie online`,
      still: (count) => `${count} ${noun(count)} nadal ${nounFor(count, 'jest są jest')} offline`,
      stuck: (count) =>
        `${count} ${devices(count)} online, ale nie ${nounFor(count, 'wysyła wysyłają wysyła')} e-maili`,
      flows: (count) =>
        `${count} ${noun(count)} ponownie ${nounFor(count, 'wysyła wysyłają wysyła')} e-maile`,
      was: (count) =>
        `${count} ${noun(count)} ${nounFor(count, 'było były było')} offline poza Państwa godzinami powiadomień i ponownie ${nounFor(count, 'jest są jest')} online`,
    },
    signals: ': nie otrzymujemy już od nich sygnałów.',
    since: 'od',
    more: (count) => `i jeszcze ${count}`,
    promise: 'Powiadomimy Państwa, gdy tylko urządzenia będą ponownie online.',
    site: {
      offline: (site, count, total) => `Lokalizacja ${site}: ${count} z ${total} urządzeń offline`,
      back: (site, count, total) => `Lokalizacja ${site}: ${count} z ${total} urządzeń ponownie online`,
    },
  },
  weekly: {
    clear: 'Brak przerw w łączności w ciągu ostatnich 7 dni',
    outages: (count) =>
      `${count} ${nounFor(count, 'urządzenie urządzenia urządzeń')} z przerwami w łączności w ciągu ostatnich 7 dni`,
    watched: (total) => `Liczba nadzorowanych urządzeń: ${total}.`,
    until: 'Stan na',
    line: (times, lasted) =>
      `${breaks(times)}${lasted === null ? '' : `, ${times === 1 ? '' : 'łącznie '}${lasted}`}`,
    still: 'nadal offline',
    quiet: 'Teraz wyciszone',
  },
};

/** `22 urządzenia są`, but `25 urządzeń jest`. */
function devices(count: number): string {
  return `${noun(count)} ${nounFor(count, 'jest są jest')}`;
}

function noun(count: number): string {
  return nounFor(count, 'urządzenie urządzenia urządzeń');
}

/** From a moment to another one. */
function range(from: Point, to: Point): string {
  return to.day === null
    ? `${from.day} od ${from.time} do ${to.time}`
    : `od ${from.day}, godz. ${from.time}, do ${to.day}, godz. ${to.time}`;
}
