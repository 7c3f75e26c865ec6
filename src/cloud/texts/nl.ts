/**
 * The texts in Dutch.
 */
import { nounFor, type Point, type Words } from './words.js';

const at = ({ day, time }: Point) => (day === null ? `${time} uur` : `${day} om ${time} uur`);

export const NL: Words = {
  greeting: 'Hallo,',
  subject: {
    silent: (device) => `${device} is offline`,
    stopped: (device) => `${device} is nog uitgeschakeld`,
    back: (device) => `${device} is weer online`,
    was: (device, when) => `${device} was ${when === null ? 'offline en is weer online' : `${when} offline`}`,
    quiet: (device, until) => `${device} is gedempt ${until}`,
    word: (device) => `Laatste bericht van ${device}`,
    still: (device, span) => `${device} is nog steeds offline${span === null ? '' : `, al ${span}`}`,
    stuck: (device) => `${device} is online, maar verstuurt geen e-mails`,
    flows: (device) => `${device} verstuurt weer e-mails`,
    drill: (device) => `TEST: zo zou ${device} u waarschuwen`,
  },
  sentence: {
    silent: (device) => `Het apparaat “${device}” is offline: we ontvangen er geen signalen meer van.`,
    stopped: (device) => `Het apparaat “${device}” is volgens plan uitgeschakeld en is nog niet weer online.`,
    back: (device) => `Het apparaat “${device}” is weer online.`,
    was: (device) =>
      `Het apparaat “${device}” is buiten uw meldingstijden offline geweest. Het is weer online.`,
    quiet: (device) => `Het apparaat “${device}” is gedempt.`,
    word: (device) =>
      `Het apparaat “${device}” heeft een laatste bericht gestuurd. Mogelijk gaat het binnenkort offline.`,
    still: (device) => `Het apparaat “${device}” is nog steeds offline: we ontvangen er geen signalen van.`,
    stuck: (device) => `Het apparaat “${device}” is online, maar zijn e-mails worden niet verstuurd.`,
    flows: (device) => `Het apparaat “${device}” verstuurt weer e-mails.`,
    drill: (device) =>
      `Dit is een test: er is niets aan de hand. Zo’n bericht krijgt u als het apparaat “${device}” offline gaat.`,
  },
  moment: {
    silent: 'Laatste signaal',
    stopped: 'Uitgeschakeld sinds',
    back: 'Weer online sinds',
    quiet: 'Gedempt tot',
    word: 'Verstuurd',
    still: 'Laatste signaal',
    stuck: 'Sinds',
    flows: 'Sinds',
  },
  lasted: 'Duur van de onderbreking',
  site: 'Locatie',
  contact: 'Contact',
  colon: ': ',
  why: {
    ran: 'Het apparaat bleef werken: het netwerk was weg.',
    restarted: (up) => `Stroomuitval of herstart${up === null ? '' : `: ${up} in bedrijf`}.`,
  },
  flaps: (times, since) => `Het viel ${since === null ? '' : `sinds ${at(since)} `}${times} keer weg.`,
  lastWord: 'Laatste bericht',
  was: { from: 'Van', to: 'Tot', times: 'Aantal onderbrekingen' },
  quiet: {
    why: 'Reden',
    means:
      'Tot dan krijgt niemand bericht als het apparaat offline gaat. Is het daarna nog offline, dan krijgt u alsnog bericht.',
  },
  lastsFor: 'Duurt al',
  stuck: {
    relay: 'Mailserver',
    states: { failing: 'storing', refusing: 'weigert de e-mails' },
    failed: 'Mislukte berichten',
    promise: 'U krijgt bericht zodra de e-mails weer worden verstuurd.',
  },
  drill: {
    confirm: 'Hebt u dit bericht gezien? Open dan deze pagina en druk daar op de knop',
    seen: 'Gezien?',
    device: 'uw apparaat',
    brief: 'TEST.',
  },
  when: {
    until: (moment) => `tot ${at(moment)}`,
    period: (from, to) =>
      to.day === null
        ? `op ${from.day} van ${from.time} tot ${to.time} uur`
        : `van ${from.day} om ${from.time} tot ${to.day} om ${to.time} uur`,
    repeated: (times, from, to) =>
      to.day === null
        ? `op ${from.day} ${times} keer tussen ${from.time} en ${to.time} uur`
        : `${times} keer tussen ${from.day} om ${from.time} en ${to.day} om ${to.time} uur`,
  },
  promise: 'U krijgt bericht zodra het apparaat weer online is.',
  closing: 'Dit bericht is automatisch verzonden.',
  overview: 'Overzicht van uw apparaten',
  units: ['dag dagen', 'uur uur', 'minuut minuten', 'seconde seconden'],
  and: 'en',
  months: 'januari februari maart april mei juni juli augustus september oktober november december',
  date: (day, month, year) => `${day} ${month} ${year}`,
  time: (time) => ` om ${time} uur`,
  sms: {
    why: { ran: 'Apparaat bleef werken: netwerk was weg.' },
    day: (day, month) => `${day}-${month}`,
    at: (day, time) => `${day} om ${time}`,
    moment: {
      silent: '. Laatste signaal: ',
      stopped: ' sinds ',
      back: ' sinds ',
      word: '. Verstuurd: ',
      still: '. Laatste signaal: ',
      stuck: ', sinds ',
      flows: ' sinds ',
    },
    lasted: 'Onderbreking: ',
  },
  digest: {
    subject: {
      offline: (count) => `${count} apparaten zijn offline`,
      back: (count) => `${count} apparaten zijn weer online`,
      still: (count) => `${count} apparaten zijn nog steeds offline`,
      stuck: (count) => `${count} apparaten zijn online, maar versturen geen e-mails`,
      flows: (count) => `${count} apparaten versturen weer e-mails`,
      was: (count) => `${count} apparaten waren buiten uw meldingstijden offline en zijn weer online`,
    },
    signals: ': we ontvangen er geen signalen meer van.',
    since: 'sinds',
    more: (count) => `en nog ${count}`,
    promise: 'U krijgt bericht zodra de apparaten weer online zijn.',
    site: {
      offline: (site, count, total) => `Locatie ${site}: ${count} van de ${total} apparaten offline`,
      back: (site, count, total) => `Locatie ${site}: ${count} van de ${total} apparaten weer online`,
    },
  },
  weekly: {
    clear: 'Geen onderbrekingen in de afgelopen 7 dagen',
    outages: (devices) =>
      `${devices} ${nounFor(devices, 'apparaat apparaten')} met onderbrekingen in de afgelopen 7 dagen`,
    watched: (total) => `We houden ${total} ${nounFor(total, 'apparaat apparaten')} in de gaten.`,
    until: 'Stand op',
    line: (times, lasted) =>
      `${times} ${nounFor(times, 'onderbreking onderbrekingen')}${lasted === null ? '' : `, ${times === 1 ? '' : 'in totaal '}${lasted}`}`,
    still: 'nog offline',
    quiet: 'Nu gedempt',
  },
};
