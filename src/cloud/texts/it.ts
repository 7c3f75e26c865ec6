/**
 * The texts in Italian.
 */
import { nounFor, type Point, type Words } from './words.js';

const since = ({ day, time }: Point) => (day === null ? `dalle ore ${time}` : `dal ${day}, ore ${time}`);

export const IT: Words = {
  greeting: 'Gentile utente,',
  subject: {
    silent: (device) => `${device} è offline`,
    stopped: (device) => `${device}: dispositivo ancora spento`,
    back: (device) => `${device} è di nuovo online`,
    // No participles: a name may be of either gender.
    was: (device, when) => `${device} ${when ?? 'era offline ed è di nuovo online'}`,
    quiet: (device, until) => `${device} è in modalità silenziosa ${until}`,
    word: (device) => `Ultimo messaggio da ${device}`,
    still: (device, span) => `${device} è ancora offline${span === null ? '' : `, da ${span}`}`,
    stuck: (device) => `${device} è online, ma le sue e-mail non partono`,
    flows: (device) => `${device} invia di nuovo le e-mail`,
    drill: (device) => `TEST: così La avviserebbe ${device}`,
  },
  sentence: {
    silent: (device) => `il dispositivo «${device}» è offline: non ne riceviamo più alcun segnale.`,
    stopped: (device) =>
      `il dispositivo «${device}» è stato spento come previsto e non è ancora tornato online.`,
    back: (device) => `il dispositivo «${device}» è di nuovo online.`,
    was: (device) =>
      `il dispositivo «${device}» è rimasto offline al di fuori dei Suoi orari. Ora è di nuovo online.`,
    quiet: (device) => `il dispositivo «${device}» è in modalità silenziosa.`,
    word: (device) =>
      `il dispositivo «${device}» ha inviato un ultimo messaggio. Potrebbe andare offline a breve.`,
    still: (device) => `il dispositivo «${device}» è ancora offline: non ne riceviamo alcun segnale.`,
    stuck: (device) => `il dispositivo «${device}» è online, ma le sue e-mail non partono.`,
    flows: (device) => `il dispositivo «${device}» invia di nuovo le e-mail.`,
    drill: (device) =>
      `questo è un test: non è successo nulla. Riceverà un messaggio come questo se il dispositivo «${device}» andrà offline.`,
  },
  moment: {
    silent: 'Ultimo segnale',
    stopped: 'Spento dal',
    back: 'Di nuovo online dal',
    quiet: 'Modalità silenziosa fino al',
    word: 'Inviato il',
    still: 'Ultimo segnale',
    stuck: 'Dal',
    flows: 'Dal',
  },
  lasted: 'Durata dell’interruzione',
  site: 'Luogo',
  contact: 'Contatto',
  colon: ': ',
  why: {
    ran: 'Il dispositivo è rimasto acceso: mancava la connessione di rete.',
    restarted: (up) => `Mancanza di corrente o riavvio${up === null ? '' : `: in funzione da ${up}`}.`,
  },
  flaps: (times, from) => `Ci sono state ${times} interruzioni${from === null ? '' : ` ${since(from)}`}.`,
  lastWord: 'Ultimo messaggio',
  was: { from: 'Dal', to: 'Al', times: 'Numero di interruzioni' },
  quiet: {
    why: 'Motivo',
    means:
      'Fino ad allora nessuno sarà avvisato se il dispositivo va offline. Se al termine sarà ancora offline, riceverà un messaggio.',
  },
  lastsFor: 'Durata finora',
  stuck: {
    relay: 'Server di posta',
    states: { failing: 'guasto', refusing: 'rifiuta le e-mail' },
    failed: 'Invii non riusciti',
    promise: 'Riceverà un messaggio non appena le e-mail partiranno di nuovo.',
  },
  drill: {
    confirm: 'Ha visto questo messaggio? Apra questa pagina e prema il pulsante',
    seen: 'Visto?',
    device: 'il Suo dispositivo',
    brief: 'TEST.',
  },
  when: {
    until: ({ day, time }) => (day === null ? `fino alle ore ${time}` : `fino al ${day}, ore ${time}`),
    period: (from, to) =>
      to.day === null
        ? `era offline il ${from.day} dalle ore ${from.time} alle ore ${to.time}`
        : `era offline dal ${from.day}, ore ${from.time}, al ${to.day}, ore ${to.time}`,
    repeated: (times, from, to) =>
      to.day === null
        ? `ha perso la connessione ${times} volte il ${from.day} tra le ore ${from.time} e le ore ${to.time}`
        : `ha perso la connessione ${times} volte tra il ${from.day}, ore ${from.time}, e il ${to.day}, ore ${to.time}`,
  },
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
    why: { ran: 'Dispositivo sempre acceso, mancava la connessione.' },
    flaps: (times, from) => `${times} interruzioni${from === null ? '' : ` ${since(from)}`}.`,
    day: (day, month) => `${day}/${month}`,
    at: (day, time) => `${day}, ore ${time}`,
    moment: {
      silent: '. Ultimo segnale: ',
      stopped: ', dal ',
      back: ' dal ',
      word: '. Inviato: ',
      still: '. Ultimo segnale: ',
      stuck: ' dal ',
      flows: ' dal ',
    },
    lasted: 'Interruzione: ',
  },
  digest: {
    subject: {
      offline: (count) => `${count} dispositivi sono offline`,
      back: (count) => `${count} dispositivi sono di nuovo online`,
      still: (count) => `${count} dispositivi sono ancora offline`,
      stuck: (count) => `${count} dispositivi sono online, ma le loro e-mail non partono`,
      flows: (count) => `${count} dispositivi inviano di nuovo le e-mail`,
      was: (count) =>
        `${count} dispositivi sono rimasti offline al di fuori dei Suoi orari e sono di nuovo online`,
    },
    signals: ': non ne riceviamo più alcun segnale.',
    since: 'dal',
    more: (count) => (count === 1 ? 'e un altro' : `e altri ${count}`),
    promise: 'Riceverà un messaggio non appena i dispositivi saranno di nuovo online.',
    site: {
      offline: (site, count, total) => `Sito ${site}: ${count} dispositivi su ${total} offline`,
      back: (site, count, total) => `Sito ${site}: ${count} dispositivi su ${total} di nuovo online`,
    },
  },
  weekly: {
    clear: 'Nessuna interruzione negli ultimi 7 giorni',
    outages: (devices) =>
      `${devices} ${nounFor(devices, 'dispositivo dispositivi')} con interruzioni negli ultimi 7 giorni`,
    watched: (total) =>
      `${total} ${nounFor(total, 'dispositivo dispositivi')} ${nounFor(total, 'monitorato monitorati')}.`,
    until: 'Aggiornato al',
    line: (times, lasted) =>
      `${times} ${nounFor(times, 'interruzione interruzioni')}${lasted === null ? '' : `, ${lasted}${times === 1 ? '' : ' in totale'}`}`,
    still: 'ancora offline',
    quiet: 'Ora in modalità silenziosa',
  },
};
