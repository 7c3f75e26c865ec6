/**
 * The page behind the link of a drill (GET and POST /drill/{device}/{uid}/{token}): whoever got the message says on it that
 * they have seen it. Anybody with the link may open it. Only its button confirms, because scanners of mails follow links.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { FieldpostError, wordsOf } from '../base/errors.js';
import type { Exchange } from '../base/http/exchange.js';
import { isJsonObject, type JsonObject } from '../base/json.js';
import { LANGS, type Lang } from '../base/langs.js';
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../base/limits.js';
import { isoOf } from '../base/text.js';
import { uidOf } from '../mail/book/destination.js';
import type { CloudParts } from './calls.js';
import type { FleetDocuments, StoredDocument } from './fleet-store.js';
import { drillToken } from './notification.js';

/** A link of an older drill is no longer valid. */
const LINK_MS = 30 * DAY_MS;
/** After a confirmation that could not be stored. */
const RETRY_MS = MINUTE_MS;
/** A device may change its document at the same time. */
const PUTS_MAX = 8;

/** True if it is the token, in constant time. */
function isToken(given: string, key: string, uid: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(drillToken(key, uid))];
  return one.length === other.length && timingSafeEqual(one, other);
}

/** `GET /drill/{device}/{uid}/{token}`: changes nothing. */
export async function getDrill(exchange: Exchange, parts: CloudParts): Promise<void> {
  const found = await findDrill(exchange, parts);
  if (found === null) sendNoLonger(exchange);
  else sendWords(exchange, 200, found, 'ask');
}

/** `POST` to the same path: the person has seen the message. */
export async function confirmDrill(exchange: Exchange, parts: CloudParts): Promise<void> {
  const found = await findDrill(exchange, parts);
  if (found === null) return sendNoLonger(exchange);
  const { id, uid } = found;
  try {
    if (!(await confirm(found, parts))) return sendNoLonger(exchange);
  } catch (error) {
    if (!(error instanceof FieldpostError)) throw error;
    parts.system.log.warn('drill not confirmed', { device: id, uid, reason: wordsOf(error) });
    return sendWords(exchange, 503, found, 'failed');
  }
  sendWords(exchange, 200, found, 'done');
}

/** A drill, and the person who opened its link. */
interface Drill {
  readonly id: string;
  readonly uid: string;
  readonly device: string;
  readonly entry: JsonObject;
  readonly stored: StoredDocument;
}

/** Null: the link is not valid, or no longer. */
async function findDrill({ segments }: Exchange, parts: CloudParts): Promise<Drill | null> {
  const { fleet, system } = parts;
  const [id = '', uid = '', token = ''] = segments;
  const drill = fleet.watch.sighting(id)?.marks.drill ?? null;
  // Memory knows: whoever guesses costs no read of etcd.
  if (drill === null || system.clock.wallMs() - drill.atMs > LINK_MS || !isToken(token, drill.key, uid))
    return null;
  const stored = await fleet.documents.read(id);
  const entry = stored && entryOf(stored, uid);
  if (!stored || !entry) return null;
  return { id, uid, device: fleet.documents.about(id)?.name ?? id, entry, stored };
}

function entryOf({ document }: StoredDocument, uid: string): JsonObject | null {
  return (document.destinations.find((entry) => isOf(entry, uid)) as JsonObject | undefined) ?? null;
}

function isOf(entry: unknown, uid: string): boolean {
  return uidOf(entry)?.toLowerCase() === uid.toLowerCase();
}

/** Repeats write nothing. */
function isJustConfirmed({ confirmedAt }: JsonObject, nowMs: number): boolean {
  return typeof confirmedAt === 'string' && Math.abs(nowMs - Date.parse(confirmedAt)) < MINUTE_MS;
}

/** False: the person is no longer in the document. Throws busy, and as FleetDocuments.put does. */
async function confirm({ id, uid, ...found }: Drill, { fleet, system }: CloudParts): Promise<boolean> {
  let stored: StoredDocument | null = found.stored;
  for (let puts = 0; puts < PUTS_MAX; puts++) {
    const entry = stored && entryOf(stored, uid);
    if (!stored || !entry) return false;
    const nowMs = system.clock.wallMs();
    if (isJustConfirmed(entry, nowMs)) return true;
    const confirmedAt = isoOf(nowMs);
    if (await putConfirmed(fleet.documents, { id, uid, stored, confirmedAt })) {
      system.log.info('drill confirmed', { device: id, uid });
      return true;
    }
    stored = await fleet.documents.read(id);
  }
  throw new FieldpostError('busy', 'The document changes all the time');
}

/** False: the document has changed meanwhile. */
async function putConfirmed(
  documents: Pick<FleetDocuments, 'put'>,
  { id, uid, stored, confirmedAt }: Pick<Drill, 'id' | 'uid' | 'stored'> & { readonly confirmedAt: string },
): Promise<boolean> {
  const { document, etag } = stored;
  const destinations = document.destinations.map((entry) =>
    isJsonObject(entry) && isOf(entry, uid) ? { ...entry, confirmedAt } : entry,
  );
  try {
    await documents.put(id, { ...document, destinations }, { 'if-match': etag });
    return true;
  } catch (error) {
    if (error instanceof FieldpostError && error.code === 'precondition-failed') return false;
    throw error;
  }
}

interface PageWords {
  readonly ask: string;
  readonly button: string;
  readonly done: string;
  readonly failed: string;
}

const WORDS: Readonly<Record<Lang, PageWords>> = {
  en: {
    ask: 'This is a test. This device would reach you by messages like this one.',
    button: 'I have seen it',
    done: 'Thank you. The test is confirmed.',
    failed: 'This could not be stored. Please try again in a few minutes.',
  },
  de: {
    ask: 'Dies ist ein Test. Mit solchen Nachrichten würde dieses Gerät Sie erreichen.',
    button: 'Ich habe sie gesehen',
    done: 'Vielen Dank. Der Test ist bestätigt.',
    failed: 'Das konnte nicht gespeichert werden. Bitte versuchen Sie es in einigen Minuten noch einmal.',
  },
  nl: {
    ask: 'Dit is een test. Met zulke berichten zou dit apparaat u bereiken.',
    button: 'Ik heb het gezien',
    done: 'Dank u wel. De test is bevestigd.',
    failed: 'Dit kon niet worden opgeslagen. Probeer het over een paar minuten opnieuw.',
  },
  fr: {
    ask: 'Ceci est un test. Cet appareil vous préviendrait par de tels messages.',
    button: 'Je l’ai vu',
    done: 'Merci. Le test est confirmé.',
    failed: 'L’enregistrement a échoué. Veuillez réessayer dans quelques minutes.',
  },
  it: {
    ask: 'Questo è un test. Con messaggi come questo il dispositivo la avviserebbe.',
    button: 'L’ho visto',
    done: 'Grazie. Il test è confermato.',
    failed: 'Il salvataggio non è riuscito. Riprovi tra qualche minuto.',
  },
  pl: {
    ask: 'To jest test. W razie awarii otrzymasz podobną wiadomość o tym urządzeniu.',
    button: 'Wiadomość dotarła',
    done: 'Dziękujemy. Test został potwierdzony.',
    failed: 'Nie udało się tego zapisać. Spróbuj ponownie za kilka minut.',
  },
  es: {
    ask: 'Esto es una prueba. Este dispositivo le avisaría con mensajes como este.',
    button: 'Lo he visto',
    done: 'Gracias. La prueba está confirmada.',
    failed: 'No se ha podido guardar. Inténtelo de nuevo dentro de unos minutos.',
  },
};

function sendWords(exchange: Exchange, status: number, drill: Drill, step: 'ask' | 'done' | 'failed'): void {
  const { entry, device } = drill;
  const lang = LANGS.find((one) => one === entry.lang) ?? 'en';
  const words = WORDS[lang];
  const form = `<form method="post"><button>${escaped(words.button)}</button></form>`;
  sendDrillPage(exchange, status, lang, device, [
    `<p>${escaped(words[step])}</p>`,
    // No action: it posts to the address that the person has opened, also behind a proxy with a path of its own.
    step === 'done' ? '' : form,
  ]);
}

/** Says nothing of devices and people: the link may be a guess. */
function sendNoLonger(exchange: Exchange): void {
  sendDrillPage(exchange, 404, 'en', 'Fieldpost', ['<p>This link is no longer valid.</p>']);
}

const STYLE = `:root{color-scheme:light dark;font:1.1rem/1.5 system-ui,sans-serif}
body{max-width:32rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}
h1{font-size:1.3rem}
button{font:inherit;padding:.8rem 1.4rem;min-height:3rem;width:100%}`;
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  'img-src data:',
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

function sendDrillPage(
  exchange: Exchange,
  status: number,
  lang: Lang,
  title: string,
  body: readonly string[],
): void {
  const text = `<!doctype html>
<html lang="${lang}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${escaped(title)}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
<main>
<h1>${escaped(title)}</h1>
${body.join('\n')}
</main>
</html>
`;
  exchange.send(status, 'text/html; charset=utf-8', text, {
    'Content-Security-Policy': POLICY,
    // The answer is of one moment, and the address is a secret.
    'Cache-Control': 'no-store',
    'Referrer-Policy': 'no-referrer',
    ...(status === 503 && { 'Retry-After': String(RETRY_MS / SECOND_MS) }),
  });
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
};

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => ENTITIES[sign] ?? sign);
}
