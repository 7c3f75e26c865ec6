/**
 * Units, and the limits that several files share; any other stands in the file that uses it.
 */

export const KIB = 1024;
export const MIB = 1024 * KIB;
export const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
export const YEAR_MS = 365.25 * DAY_MS;

// The local API.
export const SUBJECT_CHARS_MAX = 998;
/** All recipients of one mail: To, Cc and Bcc. */
export const MAIL_RECIPIENTS_MAX = 100;
/** Headers of its own that a posted mail may have. */
export const OWN_HEADERS_MAX = 20;
export const HEADER_NAME_CHARS_MAX = 76;
export const HEADER_VALUE_OCTETS_MAX = 998;
/** The longest life that a client may give a message. */
export const EXPIRES_IN_MS_MAX = 30 * DAY_MS;
/** So much of the subject is kept in memory, also after the content is gone. */
export const SUBJECT_KEPT_CHARS_MAX = 120;
/** Providers take no longer SMS: it would fail after the 202. */
export const SMS_CHARS_MAX = 1600;
export const HEADER_SECTION_BYTES_MAX = 16 * KIB;
export const HEADERS_TIMEOUT_MS = 10 * SECOND_MS;
export const REQUEST_TIMEOUT_MS = 5 * MINUTE_MS;
/** A request is ended when its body brings no byte for this long. */
export const REQUEST_IDLE_MS = 30 * SECOND_MS;
export const IDEMPOTENCY_KEY_CHARS_MAX = 255;
export const LIST_LIMIT_MAX = 1000;
/** The entries of one page of a list; a first entry may be longer. The whole page takes 1 MiB. */
export const PAGE_BYTES_MAX = MIB - KIB;

// Memory.
/** The part of the limit for requests and answers: 16 MiB of 128. */
export const HTTP_MEMORY_SHARE = 1 / 8;

// The address book.
export const DESTINATION_NAME_CHARS_MAX = 200;
/** The reason of a quiet, and a last word: they go into an SMS. In UTF-16 units. */
export const REASON_CHARS_MAX = 120;
/** The longest quiet: nobody forgets a device for longer. */
export const QUIET_MS_MAX = 7 * DAY_MS;
/** Levels of nesting in the cloud's document. */
export const DOCUMENT_DEPTH_MAX = 32;

// The store.
export const SEGMENT_BYTES = MIB;
/** The page cache writes whole pages of a file to the device. */
export const PAGE_BYTES = 4 * KIB;
/** A file counts in blocks of this size, plus one block for its inode and name. */
export const BLOCK_BYTES = 4 * KIB;
/** The journal's least size: a segment being written, one prepared, one still needed. */
export const JOURNAL_BYTES_MIN = 3 * SEGMENT_BYTES;
/** The end of each segment is reserved for outcomes, so that a delivery can always be recorded. */
export const OUTCOME_RESERVE_BYTES = 64 * KIB;
/** What finished messages take in memory is at most this part of FIELDPOST_MAX_SPOOL: the snapshots hold them. */
export const FINISHED_SHARE = 1 / 8;
/** Roughly what one takes. */
export const FINISHED_BYTES = 900;
/** Roughly what a waiting message with a text of 1 KiB takes of FIELDPOST_MAX_SPOOL. */
export const QUEUED_KIB_BYTES = 2 * KIB;
export const STORAGE_RETRY_MS = 30 * SECOND_MS;
/** A relay's reply is cut to this many characters. */
export const REPLY_CHARS_MAX = 500;

// The cloud link.
export const CLOUD_CALL_TIMEOUT_MS = 30 * SECOND_MS;
export const CLOUD_DOCUMENT_BYTES_MAX = MIB;
export const CLOUD_ANSWER_BYTES_MAX = 64 * KIB;

/** A stop waits at most this long for requests under way. */
export const STOP_REQUESTS_MS = 10 * SECOND_MS;
