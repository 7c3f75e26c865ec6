/**
 * What form.ts uses of busboy 1.6.0, which has no types of its own.
 */
declare module 'busboy' {
  import type { Readable, Writable } from 'node:stream';

  interface Busboy extends Writable {
    on(event: 'file', listener: (name: string, content: Readable) => void): this;
    on(event: 'finish', listener: () => void): this;
    on(event: 'error', listener: (error: Error) => void): this;
  }

  export default function busboy(options: {
    readonly headers: { readonly 'content-type': string };
    readonly fileHwm: number;
  }): Busboy;
}
