/**
 * The texts in German.
 */
import { nounFor, type Point, type Words } from './words.js';

/** Behind "seit". */
const dative = (span: string) => span.replace('Tage', 'Tagen');

const since = ({ day, time }: Point) =>
  day === null ? `seit ${time} Uhr` : `seit dem ${day} um ${time} Uhr`;

export const DE: Words = {
  greeting: 'Hallo,',
  subject: {
    silent: (device) => `${device} ist offline`,
    stopped: (device) => `${device} ist noch ausgeschaltet`,
    back: (device) => `${device} ist wieder online`,
    was: (device, when) =>
      `${device} war ${when === null ? 'offline und ist wieder online' : `${when} offline`}`,
    quiet: (device, until) => `${device} ist ${until} stummgeschaltet`,
    word: (device) => `Letzte Meldung von ${device}`,
    still: (device, span) =>
      `${device} ist noch immer offline${span === null ? '' : `, seit ${dative(span)}`}`,
    stuck: (device) => `${device} ist online, versendet aber keine E-Mails`,
    flows: (device) => `${device} versendet wieder E-Mails`,
    drill: (device) => `TEST: So würde ${device} Sie benachrichtigen`,
  },
  sentence: {
    silent: (device) => `das Gerät „${device}“ ist offline: Wir empfangen keine Signale mehr von ihm.`,
    stopped: (device) =>
      `das Gerät „${device}“ wurde planmäßig ausgeschaltet und ist noch nicht wieder online.`,
    back: (device) => `das Gerät „${device}“ ist wieder online.`,
    was: (device) =>
      `das Gerät „${device}“ war außerhalb Ihrer Benachrichtigungszeiten offline. Es ist wieder online.`,
    quiet: (device) => `das Gerät „${device}“ ist stummgeschaltet.`,
    word: (device) =>
      `das Gerät „${device}“ hat eine letzte Meldung gesendet. Möglicherweise geht es gleich offline.`,
    still: (device) => `das Gerät „${device}“ ist noch immer offline: Wir empfangen keine Signale von ihm.`,
    stuck: (device) => `das Gerät „${device}“ ist online, aber seine E-Mails werden nicht versendet.`,
    flows: (device) => `das Gerät „${device}“ versendet wieder E-Mails.`,
    drill: (device) =>
      `dies ist ein Test, es ist nichts passiert. Eine Nachricht wie diese erhalten Sie, wenn das Gerät „${device}“ offline geht.`,
  },
  moment: {
    silent: 'Letztes Signal',
    stopped: 'Ausgeschaltet seit',
    back: 'Wieder online seit',
    quiet: 'Stummgeschaltet bis',
    word: 'Gesendet',
    still: 'Letztes Signal',
    stuck: 'Seit',
    flows: 'Seit',
  },
  lasted: 'Dauer der Unterbrechung',
  site: 'Standort',
  contact: 'Kontakt',
  colon: ': ',
  why: {
    ran: 'Das Gerät lief die ganze Zeit: Nur das Netzwerk war ausgefallen.',
    restarted: (up) => `Stromausfall oder Neustart${up === null ? '' : `: seit ${dative(up)} in Betrieb`}.`,
  },
  flaps: (times, from) => `${from === null ? 'Es gab' : `Es gab ${since(from)}`} ${times} Unterbrechungen.`,
  lastWord: 'Letzte Meldung',
  was: { from: 'Von', to: 'Bis', times: 'Anzahl der Unterbrechungen' },
  quiet: {
    why: 'Grund',
    means:
      'Bis dahin wird niemand benachrichtigt, wenn das Gerät offline geht. Ist es danach noch offline, erhalten Sie eine Nachricht.',
  },
  lastsFor: 'Bisherige Dauer',
  stuck: {
    relay: 'Mailserver',
    states: { failing: 'gestört', refusing: 'lehnt die E-Mails ab' },
    failed: 'Fehlgeschlagene Nachrichten',
    promise: 'Sie erhalten eine Nachricht, sobald die E-Mails wieder versendet werden.',
  },
  drill: {
    confirm:
      'Haben Sie diese Nachricht gesehen? Dann öffnen Sie bitte diese Seite und drücken Sie dort auf die Schaltfläche',
    seen: 'Gesehen?',
    device: 'Ihr Gerät',
    brief: 'TEST.',
  },
  when: {
    until: ({ day, time }) => (day === null ? `bis ${time} Uhr` : `bis zum ${day} um ${time} Uhr`),
    period: (from, to) =>
      to.day === null
        ? `am ${from.day} von ${from.time} bis ${to.time} Uhr`
        : `vom ${from.day} um ${from.time} bis zum ${to.day} um ${to.time} Uhr`,
    repeated: (times, from, to) =>
      to.day === null
        ? `am ${from.day} ${times}-mal zwischen ${from.time} und ${to.time} Uhr`
        : `${times}-mal zwischen dem ${from.day} um ${from.time} und dem ${to.day} um ${to.time} Uhr`,
  },
  promise: 'Sie erhalten eine Nachricht, sobald das Gerät wieder online ist.',
  closing: 'Diese Nachricht wurde automatisch versandt.',
  overview: 'Übersicht Ihrer Geräte',
  units: ['Tag Tage', 'Stunde Stunden', 'Minute Minuten', 'Sekunde Sekunden'],
  and: 'und',
  months: 'Januar Februar März April Mai Juni Juli August September Oktober November Dezember',
  date: (day, month, year) => `${day}. ${month} ${year}`,
  time: (time) => `, ${time} Uhr`,
  sms: {
    why: { ran: 'Gerät lief durch, Netzwerk war weg.' },
    flaps: (times, from) => `${times} Unterbrechungen${from === null ? '' : ` ${since(from)}`}.`,
    day: (day, month) => `${day}.${month}.`,
    at: (day, time) => `${day}, ${time} Uhr`,
    moment: {
      silent: '. Letztes Signal: ',
      stopped: ', seit ',
      back: ', seit ',
      word: '. Gesendet: ',
      still: '. Letztes Signal: ',
      stuck: ', seit ',
      flows: ', seit ',
    },
    lasted: 'Unterbrechung: ',
  },
  digest: {
    subject: {
      offline: (count) => `${count} Geräte sind offline`,
      back: (count) => `${count} Geräte sind wieder online`,
      still: (count) => `${count} Geräte sind noch immer offline`,
      stuck: (count) => `${count} Geräte sind online, versenden aber keine E-Mails`,
      flows: (count) => `${count} Geräte versenden wieder E-Mails`,
      was: (count) =>
        `${count} Geräte waren außerhalb Ihrer Benachrichtigungszeiten offline und sind wieder online`,
    },
    signals: ': Wir empfangen keine Signale mehr von ihnen.',
    since: 'seit',
    more: (count) => `und ${count} ${count === 1 ? 'weiteres' : 'weitere'}`,
    promise: 'Sie erhalten eine Nachricht, sobald die Geräte wieder online sind.',
    site: {
      offline: (site, count, total) => `Standort ${site}: ${count} von ${total} Geräten offline`,
      back: (site, count, total) => `Standort ${site}: ${count} von ${total} Geräten wieder online`,
    },
  },
  weekly: {
    clear: 'Keine Ausfälle in den letzten 7 Tagen',
    outages: (devices) =>
      `${devices} ${nounFor(devices, 'Gerät Geräte')} mit Ausfällen in den letzten 7 Tagen`,
    watched: (total) =>
      `${total} ${nounFor(total, 'Gerät Geräte')} ${nounFor(total, 'wird werden')} überwacht.`,
    until: 'Stand',
    line: (times, lasted) =>
      `${times} ${nounFor(times, 'Ausfall Ausfälle')}${lasted === null ? '' : `, ${times === 1 ? '' : 'zusammen '}${lasted}`}`,
    still: 'noch offline',
    quiet: 'Zurzeit stummgeschaltet',
  },
};
