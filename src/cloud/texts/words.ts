/**
 * What every language has words for. A fact follows a label ("Outage lasted: 5 minutes"), so that dates and numbers need
 * no grammar of the sentence around them. Where a sentence has one after all, it is a function of its language. Plurals
 * and dates are tables: loading Intl takes 8 MB.
 */

/** What a text about one device says. See Happening. */
export type NewsKind =
  | 'silent'
  | 'stopped'
  | 'back'
  | 'was'
  | 'quiet'
  | 'word'
  | 'still'
  | 'stuck'
  | 'flows'
  | 'drill';

/** A digest says that devices are offline, or that they are back. */
export type Direction = 'offline' | 'back';

/** What one message about many devices may say of them. */
export type Way = Direction | 'still' | 'stuck' | 'flows' | 'was';

/** A moment in a sentence: `24 Nov` (null: the day is known) and `09:41`. */
export interface Point {
  readonly day: string | null;
  readonly time: string;
}

/**
 * `fact`: of `was` when it was, of `quiet` until when, of `still` for how long; null: not known. Others have none in their
 * sentence.
 */
type OfDevice = Readonly<Record<NewsKind, (device: string, fact: string | null) => string>>;
type OfDevices = Readonly<Record<Way, (count: number) => string>>;
type OfSite = Readonly<Record<Direction, (site: string, count: number, total: number) => string>>;

/** One language's words. `device` is a name, shown unchanged. */
export interface Words {
  /** Suits any hour, because the time and place of reading are unknown. */
  readonly greeting: string;
  /** Subjects of mails, also the first words of calls, push messages and SMS. */
  readonly subject: OfDevice;
  /** They follow the greeting: after its comma German, Italian and Polish go on with a small letter. */
  readonly sentence: Readonly<Record<NewsKind, (device: string) => string>>;
  /** Labels of facts. `moment`: when it happened; of `quiet`: until when it lasts. */
  readonly moment: Readonly<Record<Exclude<NewsKind, 'was' | 'drill'>, string>>;
  readonly lasted: string;
  readonly site: string;
  /** Whom to call. */
  readonly contact: string;
  /** Separates a label from its fact. */
  readonly colon: string;
  /** Why the device was away, in whole sentences. `up`: how long after its start it was back; null: not said. */
  readonly why: { readonly ran: string; readonly restarted: (up: string | null) => string };
  /** It came and went so many times since then; null: since when is not known. */
  readonly flaps: (times: number, since: Point | null) => string;
  /** Label of what a device said before it fell silent. */
  readonly lastWord: string;
  /** Of outages that are over: labels of their moments and their number. */
  readonly was: { readonly from: string; readonly to: string; readonly times: string };
  /** Of a quiet time: the label of its reason, and what it means. */
  readonly quiet: { readonly why: string; readonly means: string };
  /** Label of the length of an outage that goes on. */
  readonly lastsFor: string;
  /** Of mails that do not leave. */
  readonly stuck: {
    /** Label of the relay's state. */
    readonly relay: string;
    readonly states: Readonly<Record<'failing' | 'refusing', string>>;
    /** Label of a number of messages. */
    readonly failed: string;
    readonly promise: string;
  };
  readonly drill: {
    /** Before the link, in a mail and in a short text. */
    readonly confirm: string;
    readonly seen: string;
    /** In place of a name that is too long beside the link. */
    readonly device: string;
    /** The most important words: they stand where nothing but the link fits beside them. */
    readonly brief: string;
  };
  /** Moments in a subject, to be followed by their zone. `from` has its day, `to` has one if it is another. */
  readonly when: {
    readonly until: (moment: Point) => string;
    readonly period: (from: Point, to: Point) => string;
    readonly repeated: (times: number, from: Point, to: Point) => string;
  };
  /** Promises a message when the device returns. */
  readonly promise: string;
  readonly closing: string;
  /** Before the URL of a page. */
  readonly overview: string;
  /** Day, hour, minute, second, each in its forms after a number. See nounFor. */
  readonly units: readonly [string, string, string, string];
  /** Joins two lengths of time. */
  readonly and: string;
  /** January to December, in the form used in dates. */
  readonly months: string;
  readonly date: (day: number, month: string, year: number) => string;
  /** The time of day, to follow the date. */
  readonly time: (time: string) => string;
  /** An SMS. Its letters are those of the SMS alphabet where the language allows; sms.ts folds the others. */
  readonly sms: {
    /** In place of the same above. */
    readonly subject?: Partial<OfDevice>;
    readonly site?: string;
    readonly why?: Partial<Words['why']>;
    readonly flaps?: Words['flaps'];
    /** A day and its month (from 1) as numbers. */
    readonly day: (day: number, month: number) => string;
    /** A moment: a day as above, and the time of day. */
    readonly at: (day: string, time: string) => string;
    /** Joins the subject with its moment. */
    readonly moment: Readonly<Record<Exclude<NewsKind, 'was' | 'quiet' | 'drill'>, string>>;
    readonly lasted: string;
  };
  /** One message about more than DIGEST_DEVICES devices, so only Polish needs forms of its plural. */
  readonly digest: {
    readonly subject: OfDevices;
    /** In place of `subject` in an SMS. */
    readonly sms?: OfDevices;
    /** Follows the subject of `offline` in a mail. */
    readonly signals: string;
    /** Before the moment of the first news. */
    readonly since: string;
    /** Follows the names that are listed. */
    readonly more: (count: number) => string;
    /** Promises a message when the devices return. */
    readonly promise: string;
    /** `count` of the `total` devices of a site. */
    readonly site: OfSite;
    /** In place of `site` in an SMS. */
    readonly siteSms?: OfSite;
  };
  /** The outages of a week. */
  readonly weekly: {
    readonly clear: string;
    /** The number of devices with outages. */
    readonly outages: (devices: number) => string;
    /** The number of all devices. */
    readonly watched: (total: number) => string;
    /** Label of the moment at which the week ends. */
    readonly until: string;
    /** Outages of one device, and their length in all; null: not known. */
    readonly line: (times: number, lasted: string | null) => string;
    /** Follows the line of a device that is offline now. */
    readonly still: string;
    /** Label of the devices that are quiet now. */
    readonly quiet: string;
  };
}

/**
 * The form that follows a number; `forms` are separated by blanks: one; several; and, if it differs, many. Only Polish has
 * one for 2 to 4 (but not 12 to 14). Elsewhere all numbers but 1 take one plural.
 */
export function nounFor(count: number, forms: string): string {
  const [one = '', few = '', many = few] = forms.split(' ');
  if (count === 1) return one;
  const isFew = count % 10 >= 2 && count % 10 <= 4 && !(count % 100 >= 12 && count % 100 <= 14);
  return isFew ? few : many;
}
