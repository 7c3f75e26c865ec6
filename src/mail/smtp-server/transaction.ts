/**
 * The envelope of a mail, from MAIL to DATA: the commands (RFC 5321 §4.1) and the replies to them. Pure.
 */
import { MAIL_RECIPIENTS_MAX } from '../../base/limits.js';
import { type Address, isBeyondAscii, isUserName, localAddressOf, parseAddress } from '../message/address.js';
import type { MailTerms, Payer, Sender } from '../message/message.js';

/** What the envelope depends on. */
export interface EnvelopeRules {
  /** The most octets of a mail. */
  readonly limitBytes: () => number;
  /** Where mail to this address goes: that to a user of this device goes to its readers. Empty: nobody reads it. */
  readonly homesOf: (address: Address) => readonly Address[];
}

/** The envelope. Each method gives the reply. */
export class Transaction {
  readonly #rules: EnvelopeRules;
  #from: Sender | null = null;
  #to: Address[] = [];
  #isOpen = false;
  #isUtf8 = false;
  #expectedBytes = 0;
  #refused = 0;

  constructor(rules: EnvelopeRules) {
    this.#rules = rules;
  }

  /** True between MAIL and the end of the mail. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** The envelope of the mail that comes now. */
  get terms(): Omit<MailTerms, keyof Payer> {
    return {
      ...{ from: this.#from, to: this.#to, expectedBytes: this.#expectedBytes },
      ...{ isUrgent: false, isRepaired: true },
    };
  }

  reset(): void {
    this.#isOpen = false;
    this.#to = [];
    this.#refused = 0;
  }

  /** `MAIL`; `mayAuth`: this connection offers AUTH, and so takes its parameter. */
  mail(argument: string, mayAuth: boolean): string {
    if (this.#isOpen) return '503 5.5.1 There is a sender already';
    const found = pathOf('FROM', argument);
    if (found === null) return '501 5.5.4 Not a sender: MAIL FROM:<address>';
    const { path, parameters } = found;
    const limitBytes = this.#rules.limitBytes();
    let isUtf8 = false;
    let expectedBytes = 0;
    for (const [name, value] of parameters) {
      if (name === 'SIZE') {
        if (!/^\d{1,20}$/.test(value)) return '501 5.5.4 SIZE is a number';
        expectedBytes = Number(value);
      } else if (name === 'BODY') {
        if (!/^(?:7BIT|8BITMIME)$/i.test(value)) return '501 5.5.4 BODY is 7BIT or 8BITMIME';
      } else if (name === 'SMTPUTF8') {
        if (value !== '') return '501 5.5.4 SMTPUTF8 has no value';
        isUtf8 = true;
      } else if (name !== 'AUTH' || !mayAuth || value === '') return `555 5.5.4 Unknown parameter ${name}`;
    }
    if (expectedBytes > limitBytes) return `552 5.3.4 More than ${limitBytes} octets`;
    if (!isUtf8 && isBeyondAscii(path)) return '553 5.6.7 This address needs SMTPUTF8';
    this.reset();
    // A name of this device, such as root, is no address: the device's own is used.
    this.#from = path === '' ? '' : parseAddress(path);
    this.#isOpen = true;
    this.#isUtf8 = isUtf8;
    this.#expectedBytes = expectedBytes;
    return '250 2.1.0 OK';
  }

  /** `RCPT`. */
  recipient(argument: string): string {
    if (!this.#isOpen) return '503 5.5.1 MAIL first';
    const reply = this.#add(argument);
    if (!reply.startsWith('2')) this.#refused++;
    return reply;
  }

  #add(argument: string): string {
    const found = pathOf('TO', argument);
    if (found === null) return '501 5.5.4 Not a recipient: RCPT TO:<address>';
    const { path, parameters } = found;
    for (const name of parameters.keys()) return `555 5.5.4 Unknown parameter ${name}`;
    if (path === '') return '501 5.1.3 The recipient is missing';
    if (!this.#isUtf8 && isBeyondAscii(path)) return '553 5.6.7 This address needs SMTPUTF8';
    const address = isUserName(path) ? localAddressOf(path) : parseAddress(path);
    if (address === null)
      return `553 5.1.3 Not an email address${path.includes('@') ? '' : ', and no name of a user'}`;
    if (this.#rules.homesOf(address).length === 0)
      return '550 5.1.1 Mail for this user of the device goes nowhere: FIELDPOST_LOCAL_MAIL names nobody who reads it';
    if (this.#to.includes(address)) return '250 2.1.5 OK, named before';
    if (this.#to.length >= MAIL_RECIPIENTS_MAX)
      return `452 4.5.3 At most ${MAIL_RECIPIENTS_MAX} recipients at once`;
    this.#to.push(address);
    return '250 2.1.5 OK';
  }

  /** Why no mail can come now; null: it can. */
  get dataRefusal(): string | null {
    if (!this.#isOpen) return '503 5.5.1 MAIL and RCPT first';
    if (this.#to.length > 0) return null;
    return this.#refused > 0 ? '554 5.5.1 No recipient was accepted' : '503 5.5.1 RCPT first';
  }
}

// The source route is ignored (RFC 5321 §4.1.2, §C). Devices put blanks around the colon and leave the brackets out, against
// the rules.
const PATH =
  /^ *: *(?:<(?:@[^:>]*:)?((?:"(?:[^"\\]|\\.)*"|[^"\s<>])*)>|((?:"(?:[^"\\]|\\.)*"|[^":\s<>])+))((?: +[^ ]+)*)$/;
const PARAMETER = /^([A-Za-z0-9][A-Za-z0-9-]*)(?:=([!-<>-~]+))?$/;

/**
 * The path behind `word` and a colon, without brackets and source route, and the parameters by name in capitals; null if it is
 * written wrongly, or has a parameter twice.
 */
function pathOf(
  word: 'FROM' | 'TO',
  argument: string,
): { readonly path: string; readonly parameters: ReadonlyMap<string, string> } | null {
  if (argument.slice(0, word.length).toUpperCase() !== word) return null;
  const [, inBrackets, bare, rest = ''] = PATH.exec(argument.slice(word.length)) ?? [];
  const path = inBrackets ?? bare;
  if (path === undefined) return null;
  const parameters = new Map<string, string>();
  for (const one of rest.split(' ')) {
    if (one === '') continue;
    const [, name, value = ''] = PARAMETER.exec(one) ?? [];
    if (name === undefined || parameters.has(name.toUpperCase())) return null;
    parameters.set(name.toUpperCase(), value);
  }
  return { path, parameters };
}
