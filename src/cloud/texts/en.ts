/**
 * The texts in English.
 */
import { nounFor, type Point, type Words } from './words.js';

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

const at = ({ day, time }: Point) => (day === null ? time : `${day}, ${time}`);

export const EN: Words = {
  greeting: 'Hello,',
  subject: {
    silent: (device) => `${device} is offline`,
    stopped: (device) => `${device} is still shut down`,
    back: (device) => `${device} is back online`,
    was: (device, when) => `${device} was offline${when === null ? ' and is back online' : ` ${when}`}`,
    quiet: (device, until) => `${device} is quiet ${until}`,
    word: (device) => `Last word from ${device}`,
    still: (device, span) => `${device} is still offline${span === null ? '' : ` after ${span}`}`,
    stuck: (device) => `${device} is online, but its mails do not leave`,
    flows: (device) => `${device} sends its mails again`,
    drill: (device) => `TEST: ${device} would alert you like this`,
  },
  sentence: {
    silent: (device) => `The device “${device}” is offline: we no longer receive any signal from it.`,
    stopped: (device) => `The device “${device}” was shut down as planned and has not come back.`,
    back: (device) => `The device “${device}” is back online.`,
    was: (device) => `The device “${device}” was offline outside your hours. It is back online.`,
    quiet: (device) => `The device “${device}” is quiet.`,
    word: (device) => `The device “${device}” has sent a last word. It may go offline soon.`,
    still: (device) => `The device “${device}” is still offline: we receive no signal from it.`,
    stuck: (device) => `The device “${device}” is online, but its mails do not leave.`,
    flows: (device) => `The device “${device}” sends its mails again.`,
    drill: (device) =>
      `This is a test: nothing has happened. A message like this one tells you when the device “${device}” goes offline.`,
  },
  moment: {
    silent: 'Last signal',
    stopped: 'Shut down since',
    back: 'Back online since',
    quiet: 'Quiet until',
    word: 'Sent',
    still: 'Last signal',
    stuck: 'Since',
    flows: 'Since',
  },
  lasted: 'Outage lasted',
  site: 'Site',
  contact: 'Contact',
  colon: ': ',
  why: {
    ran: 'It ran throughout: the network was away.',
    restarted: (up) => `It lost power or restarted${up === null ? '' : `: up for ${up}`}.`,
  },
  flaps: (times, since) =>
    `It has come and gone ${times} times${since === null ? '' : ` since ${at(since)}`}.`,
  lastWord: 'Last word',
  was: { from: 'From', to: 'To', times: 'Number of outages' },
  quiet: {
    why: 'Reason',
    means:
      'Until then nobody is told when the device goes offline. If it is offline after that, you will get a message.',
  },
  lastsFor: 'Offline for',
  stuck: {
    relay: 'Relay',
    states: { failing: 'failing', refusing: 'refusing' },
    failed: 'Failed messages',
    promise: 'You will get a message as soon as its mails leave again.',
  },
  drill: {
    confirm: 'Have you seen this message? Please open this page and press the button',
    seen: 'Seen?',
    device: 'your device',
    brief: 'TEST.',
  },
  when: {
    until: (moment) => `until ${at(moment)}`,
    period: (from, to) =>
      to.day === null ? `on ${from.day} from ${from.time} to ${to.time}` : `from ${at(from)} to ${at(to)}`,
    repeated: (times, from, to) =>
      to.day === null
        ? `${times} times on ${from.day} between ${from.time} and ${to.time}`
        : `${times} times between ${at(from)} and ${at(to)}`,
  },
  promise: 'You will get a message as soon as the device is back online.',
  closing: 'This message was sent automatically.',
  overview: 'Overview of your devices',
  units: ['day days', 'hour hours', 'minute minutes', 'second seconds'],
  and: 'and',
  months: 'January February March April May June July August September October November December',
  date: (day, month, year) => `${day} ${month} ${year}`,
  time: (time) => `, ${time}`,
  sms: {
    flaps: (times, since) => `Came and went ${times} times${since === null ? '' : ` since ${at(since)}`}.`,
    day: (day, month) => `${day} ${MONTHS[month - 1]}`,
    at: (day, time) => `${day}, ${time}`,
    moment: {
      silent: '. Last signal: ',
      stopped: ', since ',
      back: ', since ',
      word: '. Sent: ',
      still: '. Last signal: ',
      stuck: ', since ',
      flows: ', since ',
    },
    lasted: 'Outage: ',
  },
  digest: {
    subject: {
      offline: (count) => `${count} devices are offline`,
      back: (count) => `${count} devices are back online`,
      still: (count) => `${count} devices are still offline`,
      stuck: (count) => `${count} devices are online, but their mails do not leave`,
      flows: (count) => `${count} devices send their mails again`,
      was: (count) => `${count} devices were offline outside your hours and are back online`,
    },
    signals: ': we no longer receive any signal from them.',
    since: 'since',
    more: (count) => `and ${count} more`,
    promise: 'You will get a message as soon as the devices are back online.',
    site: {
      offline: (site, count, total) => `Site ${site}: ${count} of ${total} devices offline`,
      back: (site, count, total) => `Site ${site}: ${count} of ${total} devices back online`,
    },
  },
  weekly: {
    clear: 'No outages in the past 7 days',
    outages: (devices) => `${devices} ${nounFor(devices, 'device devices')} with outages in the past 7 days`,
    watched: (total) => `${total} ${nounFor(total, 'device devices')} ${nounFor(total, 'is are')} watched.`,
    until: 'As of',
    line: (times, lasted) =>
      `${times} ${nounFor(times, 'outage outages')}${lasted === null ? '' : `, ${lasted}${times === 1 ? '' : ' in all'}`}`,
    still: 'still offline',
    quiet: 'Quiet now',
  },
};
