/**
 * The sentences about the cloud's document in the state and the log.
 */

import { oneLine } from '../../base/text.js';
import type { Alterations } from '../book/address-book.js';
import type { Estranged } from '../book/ancestry.js';

/** Why the sync waits if the cloud had a document and has none. */
export const ABSENT_WORDS =
  'the cloud has no address book of this device; if that lasts ten minutes, the device sends its own';

const NAMED_ENTRIES_MAX = 5;

const WHY: Readonly<Record<Estranged, string>> = {
  other: "the cloud's address book is another one than this device knew",
  older: "the cloud's address book has gone back in time, as from a backup",
  ahead: "the cloud's address book was put there by another device, or is from a backup",
  bare: "the cloud's address book was made anew, or has lost its member fieldpost",
};

/** Why both books were merged. */
export function joinedWords(estranged: Estranged): string {
  return `${WHY[estranged]}: both books were merged and no entry was deleted; delete the entries that should not be there`;
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
  return 'the cloud drops unknown JSON members such as fieldpost, so an entry that is deleted in the cloud comes back';
}
