/**
 * What every language has words for. A fact follows a label ("Outage lasted: 5 minutes"), so that dates and numbers need
 * no grammar of the sentence around them. Plurals and dates are tables: loading Intl takes 8 MB.
 */

/** A device fell silent; it announced a stop and did not return; it is back. */
type Kind = 'silent' | 'stopped' | 'back';

/** A digest says that devices are offline, or that they are back. */
export type Direction = 'offline' | 'back';

type OfDevice = Readonly<Record<Kind, (device: string) => string>>;
type OfDevices = Readonly<Record<Direction, (count: number) => string>>;

/** One language's words. `device` is a name, shown unchanged. */
export interface Words {
  /** Suits any hour, because the time and place of reading are unknown. */
  readonly greeting: string;
  /** Subjects of mails, also the first words of calls, push messages and SMS. */
  readonly subject: OfDevice;
  /** They follow the greeting: after its comma German, Italian and Polish go on with a small letter. */
  readonly sentence: OfDevice;
  /** Labels of facts. `moment`: when it happened. */
  readonly moment: Readonly<Record<Kind, string>>;
  readonly lasted: string;
  readonly site: string;
  /** Whom to call. */
  readonly contact: string;
  /** Separates a label from its fact. */
  readonly colon: string;
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
    /** In place of `subject` and `site` above. */
    readonly subject?: Partial<OfDevice>;
    readonly site?: string;
    /** A moment: day and month (from 1) as numbers, and the time of day. */
    readonly at: (day: number, month: number, time: string) => string;
    /** Joins the subject with its moment. */
    readonly moment: Readonly<Record<Kind, string>>;
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
