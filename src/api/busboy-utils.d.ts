/**
 * What form-part.ts uses of busboy 1.6.0. @types/busboy knows only busboy's main file.
 */
declare module 'busboy/lib/utils.js' {
  /** Reads a Content-Disposition, RFC 5987 included; `decode` is for the other parameters. */
  export function parseDisposition(
    header: string,
    decode: (octets: string) => string,
  ): { readonly params: Readonly<Record<string, string>> } | undefined;
}
