/**
 * The calls of programs that give signs (a dead man's switch). The parameters are in the query: curl needs no body.
 */
import { duration } from '../../base/config/values.js';
import { type Fault, FieldpostError, wordsOf } from '../../base/errors.js';
import type { Exchange } from '../../base/http/exchange.js';
import { checkPercent, invalidQuery } from '../../base/http/query.js';
import { type Address, parseAddress } from '../../mail/message/address.js';
import type { ApiContext } from './context.js';

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
/** As alive-rule.ts has it. */
const WITHIN = duration('10s', '7d');

/** `GET /api/internal/alive`: all programs. */
export async function listAlive(exchange: Exchange, { alive }: ApiContext): Promise<void> {
  exchange.json(200, { programs: (await alive.open()).list() });
}

/** `PUT /api/internal/alive/{id}?within=10m&to=ops@example.com`: a sign. The first one begins the watch. */
export async function putAlive(exchange: Exchange, context: ApiContext): Promise<void> {
  const { id: name } = exchange;
  const { withinMs, to } = signIn(exchange, context);
  const watch = await context.alive.open();
  if (await watch.sign(name, withinMs, to)) exchange.json(201, watch.get(name));
  else exchange.nothing();
}

/** `DELETE /api/internal/alive/{id}`: no signs are expected any more. Nobody is told. */
export async function deleteAlive(exchange: Exchange, { alive }: ApiContext): Promise<void> {
  await (await alive.open()).remove(exchange.id);
  exchange.nothing();
}

/** What the request says. Throws invalid. */
function signIn({ id, query }: Exchange, { homesOf }: ApiContext): { withinMs: number; to: Address | null } {
  checkPercent(query);
  const given = new URLSearchParams(query);
  const faults: Fault[] = [];
  if (!NAME.test(id)) {
    const words = '1 to 64 letters, digits, dots, hyphens or underscores, the first a letter or digit';
    throw new FieldpostError('invalid', `The name of a program has ${words}`);
  }
  const within = given.get('within');
  const address = given.get('to');
  let withinMs = 0;
  try {
    withinMs = WITHIN.parse(within ?? '');
  } catch (error) {
    const why = within === null ? 'is required' : wordsOf(error);
    faults.push({ pointer: 'within', detail: `${why}: ${WITHIN.allowed}` });
  }
  const to = address === null ? null : parseAddress(address);
  if (address !== null && to === null) {
    const plus = address.includes(' ') ? '; in a query a + is written %2B' : '';
    faults.push({ pointer: 'to', detail: `must be exactly one email address, like ops@example.com${plus}` });
  } else if (to !== null && homesOf(to).length === 0) {
    faults.push({ pointer: 'to', detail: 'is a user of this device whose mail nobody reads' });
  }
  if (faults.length > 0) throw invalidQuery(faults);
  return { withinMs, to };
}
