/**
 * Types for the part of systemd-notify 1.0.0 that we use; the package has none. The callback form is left out, because its
 * promise never settles.
 */
declare module 'systemd-notify' {
  /** Sends `what`, with the id of this process as MAINPID=. Rejects with a string, perhaps an empty one, or an Error. */
  export default function notify(what: { ready?: true; status?: string }): Promise<unknown>;
}
