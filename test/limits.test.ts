/** The relations between limits on which the code relies: a limit that is changed alone fails here. */
import t from 'tap';
import { CONNECTIONS_MAX, POLLS_MAX } from '../src/base/http/connection.js';
import { CONNECTIONS_OPEN_MAX, CONNECTIONS_WAITING_MAX } from '../src/base/http/connections.js';
import * as limits from '../src/base/limits.js';
import { FORM_FIELD_BYTES_MAX } from '../src/device/api/form-guard.js';
import { HEARTBEAT_TIMEOUT_MS } from '../src/device/link/client.js';
import { OFFLINE_AFTER_MS } from '../src/device/link/link.js';
import { CHECKPOINT_BYTES_MIN } from '../src/mail/store/checkpoints.js';
import { OUTCOME_BYTES_MAX } from '../src/mail/store/store.js';

const { KIB } = limits;

t.test('they go together', async (t) => {
  t.ok(limits.OUTCOME_RESERVE_BYTES < limits.SEGMENT_BYTES / 2, 'a segment is mostly for messages');
  t.ok(OUTCOME_BYTES_MAX >= limits.REPLY_CHARS_MAX * 4 + KIB / 2, 'no reply is too long for an outcome');
  const underWay = 20 * OUTCOME_BYTES_MAX;
  t.ok(limits.OUTCOME_RESERVE_BYTES >= underWay, 'all that can be under way at once fits the reserve');
  t.ok(CHECKPOINT_BYTES_MIN >= limits.SEGMENT_BYTES, 'a checkpoint frees at least a segment');
  t.ok(limits.REQUEST_IDLE_MS > limits.HEADERS_TIMEOUT_MS, 'a body may be slower than its headers');
  t.ok(limits.REQUEST_TIMEOUT_MS > limits.REQUEST_IDLE_MS, 'a whole request outlasts one pause');
  const places = CONNECTIONS_MAX + POLLS_MAX + CONNECTIONS_WAITING_MAX;
  t.ok(places < CONNECTIONS_OPEN_MAX, 'further clients get a 503');
  t.ok(limits.SUBJECT_CHARS_MAX < FORM_FIELD_BYTES_MAX, 'a subject fits a form field');
  t.ok(HEARTBEAT_TIMEOUT_MS < OFFLINE_AFTER_MS, 'a silent heartbeat fails before the link is offline');
});
