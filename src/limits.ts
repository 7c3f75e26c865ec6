/**
 * Every maximum, interval and timeout that is not a setting, with its unit in its name. Those a user may change are
 * defaults in config.ts.
 */

export const KIB = 1024;
export const MIB = 1024 * KIB;
export const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
export const YEAR_MS = 365.25 * DAY_MS;

// The local API (local-api §5).
export const FORM_FIELD_BYTES_MAX = 256 * KIB;
/** What a form has besides the contents of its parts: boundaries, headers, and what stands before and behind them. */
export const FORM_FRAME_BYTES_MAX = 128 * KIB;
export const FILE_NAME_CHARS_MAX = 255;
/** Bodies, or the texts of forms, that are in memory at the same time, of all requests together. */
export const BODIES_BYTES_MAX = 16 * MIB;
export const SUBJECT_CHARS_MAX = 998;
/** No provider takes a longer SMS: it would fail after the 202. */
export const SMS_CHARS_MAX = 1600;
export const APP_DATA_BYTES_MAX = 4 * KIB;
export const HEADER_SECTION_BYTES_MAX = 16 * KIB;
/** Answers that clients have not taken yet, of all requests together; below ANSWER_COUNTED_BYTES they do not count. */
export const ANSWERS_BYTES_MAX = 4 * MIB;
export const ANSWER_COUNTED_BYTES = 16 * KIB;
/** Of a request that kept as much it is told when that is done with (system/memory.ts). */
export const DROPPED_BYTES_MIN = 64 * KIB;
/** Requests of one connection that may be open at once: those above it are not taken. */
export const PIPELINED_MAX = 16;
export const CONNECTIONS_MAX = 64;
/** Further connections that wait for one of those to end, unread. */
export const CONNECTIONS_WAITING_MAX = 192;
/** All connections that are open at once, those being refused among them. */
export const CONNECTIONS_OPEN_MAX = 512;
/** A connection waits for its place at most this long. */
export const PLACE_WAIT_MS = 5 * SECOND_MS;
/** While connections wait, those that are silent are looked for this often. */
export const PLACE_CHECK_MS = SECOND_MS / 4;
export const HEADERS_TIMEOUT_MS = 10 * SECOND_MS;
export const REQUEST_TIMEOUT_MS = 5 * MINUTE_MS;
/** A request whose body brings not one byte for this long is ended. */
export const REQUEST_IDLE_MS = 30 * SECOND_MS;
export const KEEP_ALIVE_MS = 60 * SECOND_MS;
/** After a refusal the rest of the body is read and thrown away for this long, or this many bytes. */
export const REFUSED_LINGER_MS = 2 * SECOND_MS;
export const REFUSED_LINGER_BYTES = MIB;
/** RFC 6838 §4.2: each half of a media type has at most 127 characters. */
export const MEDIA_TYPE_CHARS_MAX = 255;
export const IDEMPOTENCY_KEY_CHARS_MAX = 255;
export const IDEMPOTENCY_KEYS_MAX = 10_000;
export const IDEMPOTENCY_AGE_MS = DAY_MS;
export const LIST_LIMIT_DEFAULT = 100;
export const LIST_LIMIT_MAX = 1000;
/** The entries of a page take no more, unless the first alone does; with what stands around them it is 1 MiB. */
export const PAGE_BYTES_MAX = MIB - KIB;
/** What a client is told to wait for when the queue or the disk is full. */
export const RETRY_AFTER_FULL_MS = 60 * SECOND_MS;

// Memory.
/** Where no control group limits it, no more than this, nor than half of the machine's, is taken as the limit. */
export const MEMORY_LIMIT_BYTES_MAX = 1024 * MIB;
/** Of the limit, what an idle daemon takes: node, V8, code, buffers. */
export const IDLE_MEMORY_BYTES = 36 * MIB;
/** Of the limit, what requests and their answers may take: 16 MiB of 128. */
export const HTTP_MEMORY_SHARE = 1 / 8;
/** The store takes so much memory for each byte that it knows: V8's dead objects, and the snapshots that a start reads. */
export const STORE_MEMORY_FACTOR = 2.5;
/** Of the store's memory, what Idempotency-Keys take before the oldest is forgotten. */
export const KEYS_MEMORY_SHARE = 1 / 4;
/** Kept free of messages for the address book. */
export const BOOK_MEMORY_BYTES = 512 * KIB;
/** A file is counted in blocks of this size, and one for its inode and its name. */
export const BLOCK_BYTES = 4 * KIB;

// The address book (local-api §2, cloud.md).
export const DESTINATION_NAME_CHARS_MAX = 200;
/** Those that a client may add; a document of so many stays below what a cloud takes. */
export const DESTINATIONS_MAX = 500;
/** Entries that are gone and would get their id back if they returned. */
export const REMOVED_IDS_MAX = 1000;
/** Where nobody knows which ids were given, so many are passed over. */
export const ID_GAP = 1000;
/** Documents put to the cloud, of which it is not known whether they arrived. */
export const SYNC_ATTEMPTS_MAX = 8;
/** Debounce: the book is sent to the cloud after this long without an edit, */
export const SYNC_QUIET_MS = SECOND_MS;
/** or this long after the first edit, whichever is sooner. */
export const SYNC_EDITS_MS_MAX = 10 * SECOND_MS;
/** So often somebody else may be faster before the sync waits as after any trouble. */
export const SYNC_TRIES_MAX = 3;
/** A mark in the cloud's document whose texts are longer, or whose counter is higher, is none. */
export const MARK_TEXT_CHARS_MAX = 64;
export const MARK_COUNTER_MAX = 2 ** 48;
/** The cloud must say for this long, while the link is online, that it has no document before it is given a new one. */
export const SYNC_ABSENT_MS = 10 * MINUTE_MS;
/** What stands in the cloud's document may be nested so deep. */
export const DOCUMENT_DEPTH_MAX = 32;

// Addresses (RFC 5321 §4.5.3.1, RFC 3696 erratum 1690).
export const LOCAL_PART_BYTES_MAX = 64;
export const DOMAIN_BYTES_MAX = 255;
export const ADDRESS_BYTES_MAX = 254;

// The store (store.md).
export const SEGMENT_BYTES = MIB;
/** A larger file in the journal is not ours: no record is so long (FIELDPOST_MAX_BODY is at most 16 MiB). */
export const SEGMENT_BYTES_MAX = 64 * MIB;
/** The journal is never smaller for long: a segment being written, one prepared, one that is still needed. */
export const JOURNAL_BYTES_MIN = 3 * SEGMENT_BYTES;
/** The end of every segment that only outcomes may use, so that what was delivered can always be recorded. */
export const OUTCOME_RESERVE_BYTES = 64 * KIB;
/** No outcome takes more than this: a reply of REPLY_CHARS_MAX, and what stands around it. */
export const OUTCOME_BYTES_MAX = 3 * KIB;
/** A lazy outcome waits for a sync at most this long, and at most so many of them wait together. */
export const OUTCOME_SYNC_MS = SECOND_MS;
export const OUTCOME_SYNC_COUNT = 32;
export const CHECKPOINT_BYTES_MIN = MIB;
export const CHECKPOINT_SNAPSHOT_FACTOR = 2;
/**
 * Segments that are done with may take this many times what a checkpoint waits for, before a sweep makes one. The two snapshots
 * need less: each what comes between two checkpoints, in whole segments.
 */
export const DONE_FACTOR = 4;
export const RELOCATE_BYTES_MIN = 8 * MIB;
/** How often the journal is tidied while the disk is short. */
export const TIDY_EVERY_MS = 30 * SECOND_MS;
/** Content moved by one record of a relocation. */
export const RELOCATE_RECORD_BYTES = 256 * KIB;
/** What such a record holds of a message beside its content, about. */
export const RELOCATED_EVENT_BYTES = 64;
/** Contents that are read one behind another are read so many bytes at a time, */
export const READ_AHEAD_BYTES = 64 * KIB;
/** where no more than this, the events and outcomes of others, lies between them. */
export const READ_AHEAD_GAP_BYTES = 4 * KIB;
/** Copies of what could not be read take at most so much, and at most this part of FIELDPOST_MAX_SPOOL. */
export const DAMAGED_BYTES_MAX = 8 * MIB;
export const DAMAGED_SHARE = 1 / 4;
/** So much of an attachment goes to the disk in one write. */
export const SPOOL_WRITE_BYTES = 256 * KIB;
/** At least so much, where many files come at the same time. */
export const SPOOL_WRITE_BYTES_MIN = 16 * KIB;
/** Of the store's memory, what such writes may take together before they get smaller. */
export const SPOOL_WRITE_SHARE = 1 / 4;
/** So much of it is read at a time when it is sent. */
export const SPOOL_READ_BYTES = 64 * KIB;
export const FREE_INODES_MIN = 100;
/** How long the answer of a look at the free space may be used again. */
export const SPACE_FRESH_MS = SECOND_MS;
export const STORAGE_RETRY_MS = 30 * SECOND_MS;
/** A start that cannot read a file tries again after each pause, all its reads together for so long. */
export const START_READ_PAUSE_MS = SECOND_MS / 4;
export const START_READS_MS_MAX = 10 * SECOND_MS;
/** How often the store looks for content and keys that have served their time. */
export const SWEEP_MS = HOUR_MS;
/** Characters kept of a relay's reply. */
export const REPLY_CHARS_MAX = 500;

// Delivery (delivery.md).
export const SESSION_IDLE_MS = 5 * SECOND_MS;
/** Pauses as long as this between all replies to one group of commands: the relay delays each of them. */
export const TRICKLE_MS = 500;
export const FINAL_DOT_TIMEOUT_MS = 10 * MINUTE_MS;
/** How long we wait for the answer to QUIT. */
export const QUIT_MS = 2 * SECOND_MS;
/** A message up to this size goes to the relay in one write. */
export const WHOLE_BYTES_MAX = 64 * KIB;
/** Of a longer one so much at a time: a link that gets this through within a deadline is slow, not dead. */
export const SLICE_BYTES = 16 * KIB;
export const REPLY_BYTES_MAX = 64 * KIB;
/** Where a name has several addresses, the next is tried after this, while the earlier ones still are (RFC 8305). */
export const ADDRESS_STAGGER_MS = 500;
/** The back-off towards a relay or the cloud starts anew only after it has been good for this long. */
export const PEER_GOOD_MS = MINUTE_MS;
/** A stop waits at most this long for the message that is just being sent. */
export const STOP_SENDING_MS = 10 * SECOND_MS;

// The cloud link (cloud.md).
/** Over how long a fleet spreads its tries at the cloud: the first after a boot, and those after a failed heartbeat. */
export const LINK_SPREAD_MS = 25 * SECOND_MS;
/** So long after a boot other devices may have booted in the same second. */
export const COMMON_BOOT_MS = 5 * MINUTE_MS;
/** So many failed heartbeats in a row, or so long without a good one after the first, are `offline`. */
export const OFFLINE_FAILURES = 3;
export const OFFLINE_AFTER_MS = 30 * SECOND_MS;
export const LINK_HISTORY_MAX = 100;
export const HEARTBEAT_TIMEOUT_MS = 15 * SECOND_MS;
export const CLOUD_CALL_TIMEOUT_MS = 30 * SECOND_MS;
/** A clean stop waits at most this long for the goodbye to the cloud. */
export const GOODBYE_TIMEOUT_MS = 3 * SECOND_MS;
/** A cloud may ask for longer pauses than ours, but not for longer ones than this. */
export const RETRY_AFTER_MS_MAX = HOUR_MS;
export const HEARTBEAT_MS_MAX = HOUR_MS;
export const CLOUD_DOCUMENT_BYTES_MAX = MIB;
export const CLOUD_ANSWER_BYTES_MAX = 64 * KIB;
/** An idle connection to the cloud is kept a little longer than one heartbeat, and shorter than most NATs do. */
export const CLOUD_IDLE_MS = 45 * SECOND_MS;
/** Our wall clock counts as right if the cloud's differs from it by no more than this and the call's own time. */
export const CLOUD_CLOCK_MS = 5 * SECOND_MS;
/** Our wall clock counts as wrong if the cloud's differs from it by this or more. */
export const CLOUD_CONTRADICTS_MS = 30 * DAY_MS;

// The reference cloud (cloud.md).
/** Heartbeats and messages are small; a document may be as large as FIELDPOST_MAX_BODY. */
export const CLOUD_BODY_BYTES_MAX = 64 * KIB;
export const CLOUD_DEVICES_MAX = 10_000;
/** All documents together; they are in memory. */
export const CLOUD_DOCUMENTS_CHARS_MAX = 64 * MIB;
/** After the cloud itself was away: a device's link backs off so long before it tries again. */
export const CLOUD_GRACE_MS = 5 * MINUTE_MS;
/** When devices were last heard is written not more often than this. */
export const PRESENCE_WRITE_MS = 5 * MINUTE_MS;
/** A cloud remembers the keys of so many messages, for so long. */
export const CLOUD_KEYS_MAX = 100_000;
export const CLOUD_KEYS_AGE_MS = 7 * DAY_MS;

/** A stop waits at most this long for requests under way. */
export const STOP_REQUESTS_MS = 10 * SECOND_MS;
/** And this long for the first request of a connection that was made before it. */
export const NEW_CONNECTION_MS = SECOND_MS;

// What the service manager is told (operations.md).
/** A notification that takes longer is given up. The manager itself is given 5 s by systemd-notify. */
export const NOTIFY_TIMEOUT_MS = 10 * SECOND_MS;
/** The status line changes at most so often: each time costs a child process. */
export const STATUS_EVERY_MS = 5 * SECOND_MS;
export const STATUS_CHARS_MAX = 500;

// The clock (delivery.md): a wall clock before the first of these, or later than so many years after it, is wrong.
export const EARLIEST_WALL_MS = Date.UTC(2026, 10, 1);
export const PLAUSIBLE_YEARS = 20;

/** Network changes come in bursts: wait 2 s for the rest, then retry relays and cloud, at most every 10 s. */
export const NETWORK_QUIET_MS = 2 * SECOND_MS;
export const NETWORK_EVERY_MS = 10 * SECOND_MS;
/** How often routes and links are compared while something is offline. */
export const NETWORK_LOOK_MS = 5 * SECOND_MS;
