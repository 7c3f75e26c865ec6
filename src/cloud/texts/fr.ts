/**
 * The texts in French.
 */
import { EN } from './en.js';
import type { Words } from './words.js';

/** French wants a no-break space before a colon and within its quotation marks. */
const NBSP = '\u00a0';

export const FR: Words = {
  ...EN,
  greeting: 'Madame, Monsieur,',
  subject: {
    ...EN.subject,
    silent: (device) => `${device} est hors ligne`,
    stopped: (device) => `${device} est toujours à l’arrêt`,
    back: (device) => `${device} est de nouveau en ligne`,
  },
  sentence: {
    ...EN.sentence,
    silent: (device) =>
      `L’appareil «${NBSP}${device}${NBSP}» est hors ligne${NBSP}: nous n’en recevons plus aucun signal.`,
    stopped: (device) =>
      `L’appareil «${NBSP}${device}${NBSP}» a été arrêté comme prévu et n’est pas encore revenu en ligne.`,
    back: (device) => `L’appareil «${NBSP}${device}${NBSP}» est de nouveau en ligne.`,
  },
  moment: { ...EN.moment, silent: 'Dernier signal', stopped: 'Arrêt', back: 'Retour en ligne' },
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
  sms: {
    subject: { stopped: (device) => `L'appareil ${device} est toujours éteint` },
    day: (day, month) => `${day}/${month}`,
    at: (day, time) => `${day} à ${time}`,
    moment: { ...EN.sms.moment, silent: '. Dernier signal le ', stopped: ' depuis le ', back: ' depuis le ' },
    lasted: 'Interruption : ',
  },
  digest: {
    ...EN.digest,
    subject: {
      offline: (count) => `${count} appareils sont hors ligne`,
      back: (count) => `${count} appareils sont de nouveau en ligne`,
    },
    signals: `${NBSP}: nous n’en recevons plus aucun signal.`,
    since: 'depuis le',
    more: (count) => `et ${count} ${count === 1 ? 'autre' : 'autres'}`,
    promise: 'Vous recevrez un message dès que les appareils seront de nouveau en ligne.',
  },
};
