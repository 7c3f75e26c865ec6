/**
 * The texts in French.
 */
import { nounFor, type Point, type Words } from './words.js';

/** French wants a no-break space before a colon or question mark, and within its quotation marks. */
const NBSP = '\u00a0';

const since = ({ day, time }: Point) => (day === null ? `depuis ${time}` : `depuis le ${day} à ${time}`);

export const FR: Words = {
  greeting: 'Madame, Monsieur,',
  subject: {
    silent: (device) => `${device} est hors ligne`,
    stopped: (device) => `${device} est toujours à l’arrêt`,
    back: (device) => `${device} est de nouveau en ligne`,
    was: (device, when) =>
      `${device} a été hors ligne${when === null ? ' et est de nouveau en ligne' : ` ${when}`}`,
    quiet: (device, until) => `${device} est en sourdine ${until}`,
    word: (device) => `${device}, dernier message`,
    still: (device, span) => `${device} est toujours hors ligne${span === null ? '' : `, depuis ${span}`}`,
    stuck: (device) => `${device} est en ligne, mais ses e-mails ne partent pas`,
    flows: (device) => `${device} envoie de nouveau ses e-mails`,
    drill: (device) => `TEST${NBSP}: ${device} vous alerterait ainsi`,
  },
  sentence: {
    silent: (device) =>
      `L’appareil «${NBSP}${device}${NBSP}» est hors ligne${NBSP}: nous n’en recevons plus aucun signal.`,
    stopped: (device) =>
      `L’appareil «${NBSP}${device}${NBSP}» a été arrêté comme prévu et n’est pas encore revenu en ligne.`,
    back: (device) => `L’appareil «${NBSP}${device}${NBSP}» est de nouveau en ligne.`,
    was: (device) =>
      `L’appareil «${NBSP}${device}${NBSP}» a été hors ligne en dehors de vos horaires d’alerte. Il est de nouveau en ligne.`,
    quiet: (device) => `L’appareil «${NBSP}${device}${NBSP}» est en sourdine.`,
    word: (device) =>
      `L’appareil «${NBSP}${device}${NBSP}» a envoyé un dernier message. Il risque de passer hors ligne.`,
    still: (device) =>
      `L’appareil «${NBSP}${device}${NBSP}» est toujours hors ligne${NBSP}: nous n’en recevons aucun signal.`,
    stuck: (device) => `L’appareil «${NBSP}${device}${NBSP}» est en ligne, mais ses e-mails ne partent pas.`,
    flows: (device) => `L’appareil «${NBSP}${device}${NBSP}» envoie de nouveau ses e-mails.`,
    drill: (device) =>
      `Ceci est un test${NBSP}: il ne s’est rien passé. Vous recevrez un message comme celui-ci si l’appareil «${NBSP}${device}${NBSP}» passe hors ligne.`,
  },
  moment: {
    silent: 'Dernier signal',
    stopped: 'Arrêt',
    back: 'Retour en ligne',
    quiet: 'Fin de la mise en sourdine',
    word: 'Envoi',
    still: 'Dernier signal',
    stuck: 'Début du blocage',
    flows: 'Reprise',
  },
  lasted: 'Durée de l’interruption',
  site: 'Site',
  contact: 'Contact',
  colon: `${NBSP}: `,
  why: {
    ran: `L’appareil a continué de fonctionner${NBSP}: la connexion réseau était coupée.`,
    restarted: (up) =>
      `Coupure de courant ou redémarrage${up === null ? '' : `${NBSP}: en marche depuis ${up}`}.`,
  },
  flaps: (times, from) => `Il y a eu ${times} coupures${from === null ? '' : ` ${since(from)}`}.`,
  lastWord: 'Dernier message',
  was: { from: 'Début', to: 'Fin', times: 'Nombre d’interruptions' },
  quiet: {
    why: 'Motif',
    means:
      'D’ici là, personne ne sera prévenu si l’appareil passe hors ligne. S’il l’est encore à ce moment-là, vous recevrez un message.',
  },
  lastsFor: 'Durée actuelle',
  stuck: {
    relay: 'Serveur de messagerie',
    states: { failing: 'en panne', refusing: 'refuse les e-mails' },
    failed: 'Messages en échec',
    promise: 'Vous recevrez un message dès que les e-mails partiront de nouveau.',
  },
  drill: {
    confirm: `Avez-vous bien reçu ce message${NBSP}? Veuillez ouvrir cette page et appuyer sur le bouton`,
    seen: `Vu${NBSP}?`,
    device: 'votre appareil',
    brief: 'TEST.',
  },
  when: {
    until: ({ day, time }) => (day === null ? `jusqu’à ${time}` : `jusqu’au ${day} à ${time}`),
    period: (from, to) =>
      to.day === null
        ? `le ${from.day} de ${from.time} à ${to.time}`
        : `du ${from.day} à ${from.time} au ${to.day} à ${to.time}`,
    repeated: (times, from, to) =>
      to.day === null
        ? `${times} fois le ${from.day} entre ${from.time} et ${to.time}`
        : `${times} fois entre le ${from.day} à ${from.time} et le ${to.day} à ${to.time}`,
  },
  promise: 'Vous recevrez un message dès que l’appareil sera de nouveau en ligne.',
  closing: 'Ce message a été envoyé automatiquement.',
  overview: 'Vue d’ensemble de vos appareils',
  units: ['jour jours', 'heure heures', 'minute minutes', 'seconde secondes'],
  and: 'et',
  months: 'janvier février mars avril mai juin juillet août septembre octobre novembre décembre',
  date: (day, month, year) => `${day === 1 ? '1er' : day} ${month} ${year}`,
  time: (time) => ` à ${time}`,
  sms: {
    subject: { stopped: (device) => `L'appareil ${device} est toujours éteint` },
    why: { ran: 'Appareil resté en marche, connexion coupée.' },
    flaps: (times, from) => `${times} coupures${from === null ? '' : ` ${since(from)}`}.`,
    day: (day, month) => `${day}/${month}`,
    at: (day, time) => `${day} à ${time}`,
    moment: {
      silent: '. Dernier signal le ',
      stopped: ' depuis le ',
      back: ' depuis le ',
      word: '. Envoyé le ',
      still: '. Dernier signal le ',
      stuck: ' depuis le ',
      flows: ' depuis le ',
    },
    lasted: 'Interruption : ',
  },
  digest: {
    subject: {
      offline: (count) => `${count} appareils sont hors ligne`,
      back: (count) => `${count} appareils sont de nouveau en ligne`,
      still: (count) => `${count} appareils sont toujours hors ligne`,
      stuck: (count) => `${count} appareils sont en ligne, mais leurs e-mails ne partent pas`,
      flows: (count) => `${count} appareils envoient de nouveau leurs e-mails`,
      was: (count) =>
        `${count} appareils ont été hors ligne en dehors de vos horaires d’alerte et sont de nouveau en ligne`,
    },
    signals: `${NBSP}: nous n’en recevons plus aucun signal.`,
    since: 'depuis le',
    more: (count) => `et ${count} ${count === 1 ? 'autre' : 'autres'}`,
    promise: 'Vous recevrez un message dès que les appareils seront de nouveau en ligne.',
    site: {
      offline: (site, count, total) =>
        `Site ${site}${NBSP}: ${count} ${nounFor(count, 'appareil appareils')} sur ${total} hors ligne`,
      back: (site, count, total) =>
        `Site ${site}${NBSP}: ${count} ${nounFor(count, 'appareil appareils')} sur ${total} de nouveau en ligne`,
    },
  },
  weekly: {
    clear: 'Aucune interruption ces 7 derniers jours',
    outages: (devices) =>
      `${devices} ${nounFor(devices, 'appareil appareils')} avec des interruptions ces 7 derniers jours`,
    watched: (total) => `${total} ${nounFor(total, 'appareil appareils')} sous surveillance.`,
    until: 'Date du relevé',
    line: (times, lasted) =>
      `${times} ${nounFor(times, 'interruption interruptions')}${lasted === null ? '' : `, ${lasted}${times === 1 ? '' : ' au total'}`}`,
    still: 'toujours hors ligne',
    quiet: 'Actuellement en sourdine',
  },
};
