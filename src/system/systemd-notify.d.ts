/**
 * What is used of systemd-notify 1.0.0, which brings no types. Its callback form is left out: the promise of that never
 * settles.
 */
declare module 'systemd-notify' {
  /** Sends `what`, and this process as the main one. Rejects with a string, perhaps an empty one, or an Error. */
  export default function notify(what: { ready?: true; status?: string }): Promise<unknown>;
}
