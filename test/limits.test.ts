/** The relations between limits on which the code relies. */
import t from 'tap';
import {
  CHECKPOINT_BYTES_MIN,
  CONNECTIONS_MAX,
  CONNECTIONS_OPEN_MAX,
  CONNECTIONS_WAITING_MAX,
  FORM_FIELD_BYTES_MAX,
  HEADERS_TIMEOUT_MS,
  HEARTBEAT_TIMEOUT_MS,
  KIB,
  OFFLINE_AFTER_MS,
  OUTCOME_BYTES_MAX,
  OUTCOME_RESERVE_BYTES,
  OUTCOME_SYNC_COUNT,
  POLLS_MAX,
  REPLY_CHARS_MAX,
  REQUEST_IDLE_MS,
  REQUEST_TIMEOUT_MS,
  SEGMENT_BYTES,
  SUBJECT_CHARS_MAX,
} from '../src/limits.js';

t.test('they go together', async (t) => {
  t.ok(OUTCOME_RESERVE_BYTES < SEGMENT_BYTES / 2, 'a segment is mostly for messages');
  const outcomesBytes = OUTCOME_SYNC_COUNT * (REPLY_CHARS_MAX * 6 + KIB);
  t.ok(OUTCOME_BYTES_MAX >= REPLY_CHARS_MAX * 4 + KIB / 2, 'no reply is too long for it');
  t.ok(OUTCOME_RESERVE_BYTES >= 20 * OUTCOME_BYTES_MAX, 'all that can be under way at once fits the reserve');
  t.ok(outcomesBytes > OUTCOME_RESERVE_BYTES / 2, 'the reserve is not idle');
  t.ok(REQUEST_IDLE_MS > HEADERS_TIMEOUT_MS, 'a body may be slower than its headers');
  t.ok(REQUEST_TIMEOUT_MS > REQUEST_IDLE_MS, 'a whole request outlasts one pause');
  const places = CONNECTIONS_MAX + POLLS_MAX + CONNECTIONS_WAITING_MAX;
  t.ok(places < CONNECTIONS_OPEN_MAX, 'further clients get a 503');
  t.ok(SUBJECT_CHARS_MAX < FORM_FIELD_BYTES_MAX, 'a subject fits a form field');
  t.ok(CHECKPOINT_BYTES_MIN >= SEGMENT_BYTES, 'a checkpoint frees at least a segment');
  t.ok(HEARTBEAT_TIMEOUT_MS < OFFLINE_AFTER_MS, 'a silent heartbeat has failed before the link is offline');
});
