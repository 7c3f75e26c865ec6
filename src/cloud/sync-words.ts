/**
 * What the sync tells people of the cloud's document, as sentences for the state and the log. Used by sync.ts.
 */
import type { Alterations } from '../destinations/address-book.js';
import type { Estranged } from '../destinations/lineage.js';
import { oneLine } from '../text.js';

/** Why the sync waits where the cloud had a document and has none. */
export const ABSENT_WORDS =
  'the cloud says that it has no address book of this device; after ten minutes of this it is given one';

const NAMED_ENTRIES_MAX = 5;

const WHY: Readonly<Record<Estranged, string>> = {
  other: "the cloud's address book is another one than this device knew",
  older: "the cloud's address book has gone back in time, as from a backup",
  ahead: "the cloud's address book was put there by another device, or is from a backup",
  bare: "the cloud's address book was made anew, or has lost its member fieldpost",
};

/** Why both sides were joined. */
export function joinedWords(estranged: Estranged): string {
  return `${WHY[estranged]}: both were joined and nobody was dropped; see who is there and should not be`;
}

/** How the cloud changes the document that it is given; null if it keeps it as it is. */
export function alteredWords({ changed, dropsMark }: Alterations): string | null {
  if (changed.length > 0) {
    const named = changed.slice(0, NAMED_ENTRIES_MAX).map(({ id, members }) => {
      return `${id === null ? 'a hidden entry' : `destination ${id}`} (${members.join(', ')})`;
    });
    const rest = changed.length - named.length;
    return oneLine(
      `the cloud changes what it is given: ${named.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`,
    );
  }
  if (!dropsMark) return null;
  return 'the cloud drops members that it does not know, such as fieldpost: who is deleted there comes back';
}
