/**
 * What notify.ts uses of systemd-notify 1.0.0, which brings no types. The callback form is left out: its promise
 * never settles.
 */
declare module 'systemd-notify' {
  /** Sends what is named, and this process as the main one. Rejects with a string, perhaps an empty one, or an Error. */
  export default function notify(what: { ready?: true; status?: string }): Promise<unknown>;
}
