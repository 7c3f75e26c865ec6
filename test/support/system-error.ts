/** Errors as calls of the operating system reject with them. */
import { getSystemErrorMap } from 'node:util';

/** Errors of Linux without a name in libuv. */
const UNNAMED: Readonly<Record<string, number>> = { EBADMSG: -74, EUCLEAN: -117, EDQUOT: -122 };

/** An Error with this `code`, and with the `errno` of a system call. */
export function systemError(code: string, words = code): Error {
  const unnamed = UNNAMED[code];
  if (unnamed !== undefined) {
    // As Node.js gives it.
    const given = `Unknown system error ${unnamed}`;
    return Object.assign(new Error(`${given}: ${words.replace(code, given)}`), {
      code: given,
      errno: unnamed,
    });
  }
  const [errno] = [...getSystemErrorMap()].find(([, [name]]) => name === code) ?? [];
  return Object.assign(new Error(words), { code, ...(errno !== undefined && { errno }) });
}
