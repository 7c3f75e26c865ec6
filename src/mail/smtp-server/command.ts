/**
 * SMTP commands as clients write them (RFC 5321 §4.1). Pure.
 */

/** A command: its verb in capitals, and the rest of the line. */
export interface ClientCommand {
  readonly verb: string;
  readonly argument: string;
}

/** The command of a line; the verb is empty if there is none. */
export function commandOf(line: string): ClientCommand {
  const [, verb = '', argument = ''] = /^([A-Za-z]+)(?: +(?! )(.*))?$/.exec(line) ?? [];
  return { verb: verb.toUpperCase(), argument: argument.trimEnd() };
}

/** The argument of MAIL or RCPT. */
export interface Path {
  /** Without brackets and source route; empty for the null sender. */
  readonly path: string;
  /** By name in capitals; the value is empty if there is none. */
  readonly parameters: ReadonlyMap<string, string>;
}

// The source route is ignored (RFC 5321 §4.1.2, §C). Devices put blanks around the colon and leave the brackets out, against
// the rules.
const PATH =
  /^ *: *(?:<(?:@[^:>]*:)?((?:"(?:[^"\\]|\\.)*"|[^"\s<>])*)>|((?:"(?:[^"\\]|\\.)*"|[^":\s<>])+))((?: +[^ ]+)*)$/;
const PARAMETER = /^([A-Za-z0-9][A-Za-z0-9-]*)(?:=([!-<>-~]+))?$/;

/** The path behind `word` and a colon, with or without brackets; null if it is written wrongly, or has a parameter twice. */
export function pathOf(word: 'FROM' | 'TO', argument: string): Path | null {
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

// What a browser sends to any port that a web page names. No SMTP command has such a name.
const HTTP = /^(?:GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH|CONNECT|TRACE|PRI) |^[\w-]+: /;

/** True if the line is of another protocol, from a program that some web page steers. */
export function isOfHttp(line: string): boolean {
  return HTTP.test(line) && !/^(?:MAIL|RCPT) /i.test(line);
}
