/**
 * The header of a form's part (RFC 7578, RFC 2183, RFC 5987): the name of its field, and of a file its name and media
 * type. Pure.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { type Charset, charsetOf } from '../../base/charset.js';
import { FieldpostError } from '../../base/errors.js';
import { cut, harmlessName, withoutBlanksAtEnd } from '../../base/text.js';
import { TEXT_FIELDS } from '../../mail/message/fields.js';
import type { NamedFile } from '../../mail/store/spool.js';

/** A text field, or a file, whose name may be empty. */
export interface PartHeader {
  readonly field: string;
  /** Null: a text field. */
  readonly file: NamedFile | null;
  /** Of the text. */
  readonly charset: Charset;
}

/** The name of a file that has none, or whose name is `.` or `..`. */
export const UNNAMED = 'attachment';

const FILE_NAME_CHARS_MAX = 255;
/** RFC 6838 §4.2: each half of a media type has at most 127 characters. */
const MEDIA_TYPE_CHARS_MAX = 255;
/** The characters of RFC 2046, and those of an HTTP token, which many clients use (RFC 9110 §5.6.2). */
const BOUNDARY = /^[\w'()+,./:=?!#$%&*^`|~ -]{0,69}[\w'()+,./:=?!#$%&*^`|~-]$/;
const HEADER = /^([!#$%&'*+.^`|~\w-]+):(.*)$/s;
const PARAMETER = /[ \t]*;[ \t]*(?:([^\s=;"]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+)))?/y;
const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/;
/** Of a wrong parameter an error shows so much. */
const SHOWN_CHARS_MAX = 40;
const CONTENT_ID = /^[!-;=?-~]{1,200}$/;
const CONTENT_ID_FAULT =
  'has a Content-ID that is not 1 to 200 visible ASCII characters without < and >, perhaps in angle brackets';
const CHARSET = /^[a-z0-9][\w.:+-]{0,39}$/;
/** RFC 5987: a charset, a language, and octets. */
const EXTENDED = /^(utf-8|iso-8859-1)'[^']*'((?:%[0-9a-f]{2}|[\w!#$&+.^`|~-])*)$/i;
const UNREADABLE = /[^\t\x20-\x7e\x80-\xff]/;

/** The boundary in a Content-Type. Throws malformed-multipart without a valid one. */
export function boundaryOf(contentType: string): string {
  const boundary = parseValue(contentType, 'The Content-Type').parameters.get('boundary');
  if (boundary !== undefined && BOUNDARY.test(boundary)) return boundary;
  const fault =
    boundary === undefined
      ? 'names no boundary'
      : 'has a boundary that is not 1 to 70 of the allowed characters';
  throw malformed(`The Content-Type ${fault}`, {
    hint: 'let the HTTP library make the header together with the body',
  });
}

/** Parses the lines of a part's header. Throws malformed-multipart, unsupported-media-type, invalid. */
export function parsePartHeader(lines: Buffer): PartHeader {
  if (!isUtf8(lines)) throw malformed('The header of a part is not UTF-8');
  const headers = readHeaders(lines.toString('latin1'));
  const disposition = headers.get('content-disposition');
  if (disposition === undefined) throw malformed('A part has no header Content-Disposition');
  const { essence, parameters } = parseValue(disposition, 'The Content-Disposition of a part');
  const field = parameters.get('name');
  if (essence !== 'form-data' || field === undefined) {
    throw malformed('The Content-Disposition of a part is not form-data with a name');
  }
  const encoding = headers.get('content-transfer-encoding')?.toLowerCase() ?? 'binary';
  if (!['7bit', '8bit', 'binary'].includes(encoding)) {
    throw unsupported(`A part has the Content-Transfer-Encoding ${JSON.stringify(encoding)}`, {
      hint: 'send its bytes as they are',
    });
  }
  const name = utf8(unquoted(field));
  const type = headers.get('content-type') ?? '';
  const filename = filenameOf(parameters);
  if (filename === null && /^multipart\//i.test(type)) {
    throw unsupported(`The field ${JSON.stringify(name)} has several files in one part`, {
      hint: 'send each as a part of its own, with curl: -F file=@one -F file=@two',
    });
  }
  if (filename !== null || !(/^(?:text\/|$)/i.test(type) || TEXT_FIELDS.includes(name))) {
    const told = { name: filename ?? '', type, cid: headers.get('content-id') ?? '' };
    const file = namedFile(told, (detail) => {
      throw new FieldpostError(
        'invalid',
        'The name, type or Content-ID of a file cannot be taken; see errors',
        {
          faults: [{ pointer: name, detail }],
        },
      );
    });
    return { field: name, file, charset: 'utf8' };
  }
  return { field: name, file: null, charset: charsetOfField(name, type) };
}

/** The headers by lower-case name, folded lines joined. Throws if a name comes twice: one would hide the other. */
function readHeaders(lines: string): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of lines.replace(/\r\n([ \t])/g, '$1').split('\r\n')) {
    if (line === '') continue;
    const [, name = '', value = ''] = HEADER.exec(line) ?? [];
    const key = name.toLowerCase();
    if (name === '' || UNREADABLE.test(value)) throw malformed('A line in the header of a part is no header');
    if (headers.has(key)) throw malformed(`A part has more than one header ${name}`);
    headers.set(key, withoutBlanksAtEnd(value.replace(/^[ \t]+/, '')));
  }
  return headers;
}

/**
 * Parses `essence; name=value; name="value"`. `header` names it in the error malformed-multipart, which is thrown if it is
 * anything else or has a parameter twice; null: it is parsed as far as it can be read.
 */
function parseValue(
  value: string,
  header: string | null,
): { essence: string; parameters: ReadonlyMap<string, string> } {
  const end = value.indexOf(';');
  const essence = (end < 0 ? value : value.slice(0, end)).trim().toLowerCase();
  const parameters = new Map<string, string>();
  for (let at = end < 0 ? value.length : end; at < value.length; ) {
    PARAMETER.lastIndex = at;
    const [found, name, quoted, token] = PARAMETER.exec(value) ?? [];
    const key = name?.toLowerCase() ?? '';
    if (found === undefined || parameters.has(key)) {
      const rest = value.slice(at).trim();
      if (rest === '' || header === null) break;
      if (found !== undefined) throw malformed(`${header} has more than one ${key}`);
      throw malformed(
        `${header} cannot be read from ${JSON.stringify(utf8(cut(rest, SHOWN_CHARS_MAX)))} on`,
        {
          hint: 'a value with blanks stands in quotes, and a quote within it is written %22',
        },
      );
    }
    at = PARAMETER.lastIndex;
    // Old programs do not escape the backslashes of a path.
    if (key !== '') parameters.set(key, quoted?.replace(/\\(["\\])/g, '$1') ?? token ?? '');
  }
  return { essence, parameters };
}

/** The file name of a part; null if it has none. `filename*` goes before `filename` (RFC 6266 §4.3). */
function filenameOf(parameters: ReadonlyMap<string, string>): string | null {
  const extended = parameters.get('filename*') ?? '';
  if (!parameters.has('filename*')) {
    const plain = parameters.get('filename');
    if (plain !== undefined) return utf8(unquoted(plain));
    if (![...parameters.keys()].some((key) => key.startsWith('filename'))) return null;
  }
  const [, charset, coded = ''] = EXTENDED.exec(extended) ?? [];
  const octets = Buffer.from(
    coded.replace(/%(..)/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
  const isUtf = charset?.toLowerCase() === 'utf-8';
  if (charset === undefined || (isUtf && !isUtf8(octets))) throw malformed('A filename* cannot be read');
  return octets.toString(isUtf ? 'utf8' : 'latin1');
}

/** The file that a client names so. Faults go to `report`, with the name of the member in JSON. */
export function namedFile(
  told: { readonly name: string; readonly type: string; readonly cid: string },
  report: (detail: string, member: string) => void,
): NamedFile {
  const [name, type] = [fileName(told.name), mediaType(told.type)];
  const cid = told.cid.replace(/^<(.*)>$/, '$1');
  if (name.length > FILE_NAME_CHARS_MAX)
    report(`has a file name of more than ${FILE_NAME_CHARS_MAX} characters`, 'name');
  if (type.length > MEDIA_TYPE_CHARS_MAX)
    report(`has a media type of more than ${MEDIA_TYPE_CHARS_MAX} characters`, 'type');
  if (told.cid !== '' && !CONTENT_ID.test(cid)) report(CONTENT_ID_FAULT, 'content_id');
  return { name, type, ...(cid !== '' && { cid }) };
}

/** The last component of a path of any system, harmless: its extension is the one that people see. */
function fileName(told: string): string {
  const name = harmlessName(told.split(/[/\\]/).at(-1) as string, '').trim();
  return name === '.' || name === '..' ? UNNAMED : name;
}

/** The media type in lower case, and its charset: a reader of the text needs it. */
function mediaType(told: string): string {
  const type = (told.split(';', 1)[0] as string).trim().toLowerCase();
  if (!MEDIA_TYPE.test(type)) return 'application/octet-stream';
  const charset = parseValue(told, null).parameters.get('charset')?.toLowerCase() ?? '';
  return CHARSET.test(charset) ? `${type}; charset=${charset}` : type;
}

/** The charset of a text field. Throws malformed-multipart, and unsupported-media-type for one that is not read. */
function charsetOfField(field: string, type: string): Charset {
  const name = JSON.stringify(field);
  const told = parseValue(type, `The Content-Type of the field ${name}`).parameters.get('charset') ?? 'utf-8';
  const charset = charsetOf(told);
  if (charset !== undefined) return charset;
  throw unsupported(`The field ${name} is in ${JSON.stringify(told)}`, {
    hint: 'text is taken in UTF-8, ISO-8859-1 and Windows-1252',
  });
}

/** Browsers escape these three characters so, and no other (WHATWG HTML §4.10.22.8). */
function unquoted(text: string): string {
  return text.replace(/%(22|0D|0A)/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function utf8(octets: string): string {
  return Buffer.from(octets, 'latin1').toString('utf8');
}

/** The form cannot be read. */
export function malformed(message: string, extra: { hint?: string } = {}): FieldpostError {
  return new FieldpostError('malformed-multipart', message, extra);
}

/** The message exceeds FIELDPOST_MAX_MESSAGE. */
export function tooLargeMessage(limitBytes: number): FieldpostError {
  return tooLarge(
    `The message with its attachments is larger than ${limitBytes} bytes (FIELDPOST_MAX_MESSAGE)`,
  );
}

/** Something exceeds its limit. */
export function tooLarge(message: string): FieldpostError {
  return new FieldpostError('too-large', message, { hint: 'nothing was queued' });
}

function unsupported(message: string, extra: { hint: string }): FieldpostError {
  return new FieldpostError('unsupported-media-type', message, extra);
}
