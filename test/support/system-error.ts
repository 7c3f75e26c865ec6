/** Errors as calls of the operating system reject with them. */

/** An Error with this `code`. */
export function systemError(code: string, words = code): Error {
  return Object.assign(new Error(words), { code });
}
