/**
 * The one function of busboy 1.6.0 that the API uses. busboy has no types for it.
 */
declare module 'busboy/lib/utils.js' {
  /** Parses a Content-Disposition, RFC 5987 included; `decode` is for the other parameters. */
  export function parseDisposition(
    header: string,
    decode: (octets: string) => string,
  ): { readonly params: Readonly<Record<string, string>> } | undefined;
}
