/**
 * The errors of connections and requests that exceed a limit or are not HTTP.
 */
import { FieldpostError } from '../errors.js';
import { HEADER_SECTION_BYTES_MAX, PIPELINED_MAX, REQUEST_IDLE_MS, SECOND_MS } from '../limits.js';
import { counted } from '../sizes.js';
import { cutShort } from './receive.js';

/** No place became free in time. */
export function allTaken(): FieldpostError {
  return new FieldpostError('busy', 'All connections are in use', {
    hint: 'close those that are not needed, or try again',
  });
}

/** A body does not fit into memory beside the others. */
export function bodiesTooLarge(maxBytes: number): FieldpostError {
  return new FieldpostError('busy', `The bodies of all requests together exceed ${maxBytes} bytes`, {
    hint: 'nothing was queued; send it again in a moment',
  });
}

/** An answer does not fit into memory beside the unread ones. */
export function answersLeft(): FieldpostError {
  return new FieldpostError('busy', 'Answers that clients have not read fill the memory', {
    hint: 'read the answers, or try again',
  });
}

/** A silent connection gives its place to another client. */
export function gaveWay(): FieldpostError {
  return new FieldpostError('timeout', 'All connections are in use, and this one has been silent longest', {
    hint: 'nothing was queued; send it again',
  });
}

/** A request comes during the stop. */
export function stoppingNow(): FieldpostError {
  return new FieldpostError('stopping', 'The daemon is stopping', { hint: 'try again when it runs again' });
}

/** A body has stalled. Of those that were announced, so many bytes are missing. */
export function idleBody(missingBytes: number): FieldpostError {
  const still =
    missingBytes === 0 ? '' : `, and ${counted(missingBytes, 'byte')} of its Content-Length did not come`;
  return new FieldpostError(
    'timeout',
    `No byte of the body came for ${REQUEST_IDLE_MS / SECOND_MS} s${still}`,
    {
      hint:
        missingBytes === 0
          ? 'nothing was queued; send it again'
          : 'nothing was queued; if the Content-Length is right, send it again',
    },
  );
}

/** node:http cannot read a request; by Node's code. */
export function clientProblem(code: string, error: Error): FieldpostError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new FieldpostError(
        'headers-too-large',
        `The headers are larger than ${HEADER_SECTION_BYTES_MAX} bytes`,
      );
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new FieldpostError('timeout', 'The request did not come whole in time', {
        hint: 'nothing was queued',
      });
    case 'HPE_INVALID_EOF_STATE':
      return cutShort();
    default:
      return new FieldpostError('malformed-request', `This is not HTTP: ${error.message}`);
  }
}

/** The answer to CONNECT. */
export function noProxy(): FieldpostError {
  return new FieldpostError('method-not-allowed', 'This server is not a proxy');
}

/** A client pipelines too much. */
export function tooManyAtOnce(): FieldpostError {
  return new FieldpostError('busy', `More than ${PIPELINED_MAX} requests at once on one connection`, {
    hint: 'wait for answers before sending more',
  });
}
