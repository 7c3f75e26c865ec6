/**
 * Calls the reference cloud for its operator, with the operator's key of the cloud's own settings.
 */
import { showListener } from '../../base/config/endpoints.js';
import { formatProblem } from '../../base/config/settings.js';
import type { ReadText } from '../../base/config/types.js';
import { EXIT, systemCodeOf } from '../../base/errors.js';
import { type Call, CallError, firstOf, waysOver } from '../client.js';
import { CommandError, type OperatorContext } from '../command.js';
import { noMore } from '../verbs.js';

// The settings that say how to reach the cloud. A fault in any other setting does not matter here.
const KEYS = ['FIELDPOST_CLOUD_SERVER_LISTEN', 'FIELDPOST_CLOUD_SERVER_KEYS_FILE', 'CREDENTIALS_DIRECTORY'];

/**
 * A function that calls the cloud of the context's environment. Throws CommandError: 78 if the settings are wrong, 77 if this
 * user may not read the keys file.
 */
export function connectCloud(context: OperatorContext): Call {
  const ours = Object.fromEntries(KEYS.map((key) => [key, context.env[key]]));
  let isDenied = false;
  const read: ReadText = (path) => {
    try {
      return context.read(path);
    } catch (error) {
      isDenied ||= systemCodeOf(error) === 'EACCES';
      throw error;
    }
  };
  const parsed = context.settings.parse(ours, read, context);
  if ('problems' in parsed) {
    const words = parsed.problems.map(formatProblem).join('\n');
    if (!isDenied) throw new CommandError(EXIT.config, words);
    throw new CommandError(
      EXIT.noPermission,
      words,
      'Call it with sudo, or as a member of the group of that file.',
    );
  }
  const { cloudServerListen: listeners, cloudServerKeys: keys } = parsed.config;
  // Without a keys file the cloud takes any key, but there must be one.
  const key = keys === null ? 'any' : (keys.get('*') ?? keys.get('*:read'))?.[0];
  if (key === undefined) {
    const hint = 'Add a line with * and a key to the file, and reload the service.';
    throw new CommandError(EXIT.config, 'FIELDPOST_CLOUD_SERVER_KEYS_FILE has no key of the operator', hint);
  }
  const call = firstOf(waysOver(listeners, 'operate', key, context));
  return async (...request) => {
    try {
      return await call(...request);
    } catch (error) {
      if (!(error instanceof CallError) || error.status !== 401) throw error;
      const where = listeners.map(showListener).join(', ');
      const hint =
        keys === null
          ? 'It has a keys file: set FIELDPOST_CLOUD_SERVER_KEYS_FILE, or give its settings with --env-file.'
          : 'The cloud reads its keys file at its start and at a reload: has the file changed since?';
      const words = `the cloud on ${where} refuses the operator's key`;
      throw new CallError(EXIT.noPermission, words, hint, { status: 401 });
    }
  };
}

/** The path of a device. */
export function pathOf(id: string): string {
  return `/devices/${encodeURIComponent(id)}`;
}

/** Why a command without an id does nothing. */
export const NO_ID = 'the id is missing: fieldpost-cloud devices shows the ids';

/** The only word. Throws CommandError (64) if it is missing or empty, or more follow. */
export function oneId([id = '', ...more]: readonly string[]): string {
  if (id === '') throw new CommandError(EXIT.usage, NO_ID);
  noMore(more);
  return id;
}
