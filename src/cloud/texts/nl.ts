/**
 * The texts in Dutch.
 */
import { EN } from './en.js';
import type { Words } from './words.js';

export const NL: Words = {
  ...EN,
  greeting: 'Hallo,',
  subject: {
    ...EN.subject,
    silent: (device) => `${device} is offline`,
    stopped: (device) => `${device} is nog uitgeschakeld`,
    back: (device) => `${device} is weer online`,
  },
  sentence: {
    ...EN.sentence,
    silent: (device) => `Het apparaat “${device}” is offline: we ontvangen er geen signalen meer van.`,
    stopped: (device) => `Het apparaat “${device}” is volgens plan uitgeschakeld en is nog niet weer online.`,
    back: (device) => `Het apparaat “${device}” is weer online.`,
  },
  moment: {
    ...EN.moment,
    silent: 'Laatste signaal',
    stopped: 'Uitgeschakeld sinds',
    back: 'Weer online sinds',
  },
  lasted: 'Duur van de onderbreking',
  site: 'Locatie',
  contact: 'Contact',
  colon: ': ',
  promise: 'U krijgt bericht zodra het apparaat weer online is.',
  closing: 'Dit bericht is automatisch verzonden.',
  overview: 'Overzicht van uw apparaten',
  units: ['dag dagen', 'uur uur', 'minuut minuten', 'seconde seconden'],
  and: 'en',
  months: 'januari februari maart april mei juni juli augustus september oktober november december',
  date: (day, month, year) => `${day} ${month} ${year}`,
  time: (time) => ` om ${time} uur`,
  sms: {
    day: (day, month) => `${day}-${month}`,
    at: (day, time) => `${day} om ${time}`,
    moment: { ...EN.sms.moment, silent: '. Laatste signaal: ', stopped: ' sinds ', back: ' sinds ' },
    lasted: 'Onderbreking: ',
  },
  digest: {
    ...EN.digest,
    subject: {
      offline: (count) => `${count} apparaten zijn offline`,
      back: (count) => `${count} apparaten zijn weer online`,
    },
    signals: ': we ontvangen er geen signalen meer van.',
    since: 'sinds',
    more: (count) => `en nog ${count}`,
    promise: 'U krijgt bericht zodra de apparaten weer online zijn.',
  },
};
