/**
 * Makes keys for devices, and shows each once.
 */
import { byId } from '../dom.js';
import type { Live } from '../live.js';
import { settingsFor } from './devices.js';

/** A function that makes a key for a device; the page has #key and the form #add. */
export function createKeyDialog(live: Live): (id: string) => void {
  const dialog = byId<HTMLDialogElement>('key');
  const key = byId('key-text');
  const copied = byId('key-copied');

  async function make(id: string): Promise<void> {
    const { body } = await live.call('POST', `/devices/${encodeURIComponent(id)}/key`);
    key.textContent = body.key;
    copied.textContent = '';
    byId('key-device').textContent = id;
    byId('key-settings').textContent = settingsFor(location.origin + location.pathname, id);
    dialog.showModal();
  }

  const newKey = (id: string) => void live.act(() => make(id), `${id} has a new key.`);
  byId('key-copy').addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(key.textContent ?? '');
      copied.textContent = 'The key is copied.';
    } catch {
      // A browser allows it only over TLS or on this machine.
      getSelection()?.selectAllChildren(key);
      copied.textContent = 'The key is selected: copy it with Ctrl+C.';
    }
  });
  byId('key-close').addEventListener('click', () => dialog.close());
  dialog.addEventListener('close', () => {
    key.textContent = '';
  });
  byId<HTMLFormElement>('add').addEventListener('submit', (event) => {
    event.preventDefault();
    const input = byId<HTMLInputElement>('add-id');
    newKey(input.value.trim());
    input.value = '';
  });
  return newKey;
}
