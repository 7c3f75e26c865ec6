/**
 * The texts in English.
 */
import type { Words } from './words.js';

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

export const EN: Words = {
  greeting: 'Hello,',
  subject: {
    silent: (device) => `${device} is offline`,
    stopped: (device) => `${device} is still shut down`,
    back: (device) => `${device} is back online`,
  },
  sentence: {
    silent: (device) => `The device “${device}” is offline: we no longer receive any signal from it.`,
    stopped: (device) => `The device “${device}” was shut down as planned and has not come back.`,
    back: (device) => `The device “${device}” is back online.`,
  },
  moment: { silent: 'Last signal', stopped: 'Shut down since', back: 'Back online since' },
  lasted: 'Outage lasted',
  site: 'Site',
  contact: 'Contact',
  colon: ': ',
  promise: 'You will get a message as soon as the device is back online.',
  closing: 'This message was sent automatically.',
  overview: 'Overview of your devices',
  units: ['day days', 'hour hours', 'minute minutes', 'second seconds'],
  and: 'and',
  months: 'January February March April May June July August September October November December',
  date: (day, month, year) => `${day} ${month} ${year}`,
  time: (time) => `, ${time}`,
  sms: {
    at: (day, month, time) => `${day} ${MONTHS[month - 1]}, ${time}`,
    moment: { silent: '. Last signal: ', stopped: ', since ', back: ', since ' },
    lasted: 'Outage: ',
  },
  digest: {
    subject: {
      offline: (count) => `${count} devices are offline`,
      back: (count) => `${count} devices are back online`,
    },
    signals: ': we no longer receive any signal from them.',
    since: 'since',
    more: (count) => `and ${count} more`,
    promise: 'You will get a message as soon as the devices are back online.',
  },
};
