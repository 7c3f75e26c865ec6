/**
 * The header of a form's part (RFC 7578, RFC 2183, RFC 5987): the name of its field, and of a file its name and media
 * type. Pure.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { parseDisposition } from 'busboy/lib/utils.js';
import { FieldpostError } from '../errors.js';
import { FILE_NAME_CHARS_MAX, MEDIA_TYPE_CHARS_MAX } from '../limits.js';
import { TEXT_FIELDS } from '../message/form-fields.js';
import { harmlessName, withoutBlanksAtEnd } from '../text.js';

/** A text field, or a file, whose name may be empty. */
export interface PartHeader {
  readonly field: string;
  /** Null: a text field. */
  readonly file: { readonly name: string; readonly type: string } | null;
}

/** The name of a file that has none, or whose name is `.` or `..`. */
export const UNNAMED = 'attachment';

const BOUNDARY = /^[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]$/;
const HEADER = /^([!#$%&'*+.^`|~\w-]+):(.*)$/s;
const PARAMETER = /[ \t]*;[ \t]*(?:([^\s=;"]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+)))?/y;
const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/;
const CHARSET = /^[a-z0-9][\w.:+-]{0,39}$/;
const EXTENDED = /^(?:utf-8|iso-8859-1)'[^']*'(?:%[0-9a-f]{2}|[\w!#$&+.^`|~-])*$/i;
const UNREADABLE = /[^\t\x20-\x7e\x80-\xff]/;

/** The boundary in a Content-Type. Throws malformed-multipart without a valid one (RFC 2046 §5.1.1). */
export function boundaryOf(contentType: string): string {
  const boundary = parseValue(contentType)?.parameters.get('boundary');
  if (boundary !== undefined && BOUNDARY.test(boundary)) return boundary;
  throw malformed('The Content-Type has no boundary of 1 to 70 allowed characters', {
    hint: 'let the HTTP library make the header together with the body',
  });
}

/** Parses the lines of a part's header. Throws malformed-multipart, unsupported-media-type, invalid. */
export function parsePartHeader(lines: Buffer): PartHeader {
  if (!isUtf8(lines)) throw malformed('The header of a part is not UTF-8');
  const headers = readHeaders(lines.toString('latin1'));
  const disposition = parseValue(headers.get('content-disposition') ?? '');
  const field = disposition?.parameters.get('name');
  if (disposition?.essence !== 'form-data' || field === undefined) {
    throw malformed('A part has no header Content-Disposition: form-data with a name');
  }
  const encoding = headers.get('content-transfer-encoding')?.toLowerCase() ?? 'binary';
  if (!['7bit', '8bit', 'binary'].includes(encoding)) {
    throw unsupported(`A part has the Content-Transfer-Encoding ${JSON.stringify(encoding)}`, {
      hint: 'send its bytes as they are',
    });
  }
  const name = utf8(unquoted(field));
  const type = headers.get('content-type');
  const filename = filenameOf(disposition.parameters);
  const isTyped = type !== undefined && !/^(?:text\/|$)/i.test(type);
  if (filename !== null || (isTyped && !TEXT_FIELDS.includes(name))) {
    return { field: name, file: { name: fileName(filename ?? '', name), type: mediaType(type, name) } };
  }
  checkCharset(name, type ?? '');
  return { field: name, file: null };
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

/** Parses `essence; name=value; name="value"`; null if it is anything else or has a parameter twice. */
function parseValue(value: string): { essence: string; parameters: ReadonlyMap<string, string> } | null {
  const end = value.indexOf(';');
  const essence = (end < 0 ? value : value.slice(0, end)).trim().toLowerCase();
  const parameters = new Map<string, string>();
  for (let at = end < 0 ? value.length : end; at < value.length; ) {
    PARAMETER.lastIndex = at;
    const found = PARAMETER.exec(value);
    if (found === null) return value.slice(at).trim() === '' ? { essence, parameters } : null;
    const [, name, quoted, token] = found;
    at = PARAMETER.lastIndex;
    if (name === undefined) continue;
    const key = name.toLowerCase();
    if (parameters.has(key)) return null;
    // Old programs do not escape the backslashes of a path.
    parameters.set(key, quoted?.replace(/\\(["\\])/g, '$1') ?? token ?? '');
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
  const name = parseDisposition(`form-data; filename*=${extended}`, utf8)?.params['filename*'] ?? '';
  // busboy also accepts other charsets, and replaces bytes that are not UTF-8 by U+FFFD.
  const isGuessed = name.includes('\ufffd') && !/%ef%bf%bd/i.test(extended);
  if (!EXTENDED.test(extended) || isGuessed) throw malformed('A filename* cannot be read');
  return name;
}

/** The last component of a path of any system, harmless: its extension is the one that people see. */
function fileName(told: string, field: string): string {
  const name = harmlessName(told.split(/[/\\]/).at(-1) as string, '').trim();
  if (name.length > FILE_NAME_CHARS_MAX) throw tooLong(field, 'file name', FILE_NAME_CHARS_MAX);
  return name === '.' || name === '..' ? UNNAMED : name;
}

/** The media type in lower case, and its charset: a reader of the text needs it. */
function mediaType(told = '', field: string): string {
  const type = (told.split(';', 1)[0] as string).trim().toLowerCase();
  if (!MEDIA_TYPE.test(type)) return 'application/octet-stream';
  if (type.length > MEDIA_TYPE_CHARS_MAX) throw tooLong(field, 'media type', MEDIA_TYPE_CHARS_MAX);
  const charset = parseValue(told)?.parameters.get('charset')?.toLowerCase() ?? '';
  return CHARSET.test(charset) ? `${type}; charset=${charset}` : type;
}

function tooLong(field: string, what: string, charsMax: number): FieldpostError {
  return new FieldpostError('invalid', `A ${what} is too long; see errors`, {
    faults: [{ pointer: field, detail: `has a ${what} of more than ${charsMax} characters` }],
  });
}

function checkCharset(field: string, type: string): void {
  const parsed = parseValue(type);
  if (parsed === null)
    throw malformed(`The Content-Type of the field ${JSON.stringify(field)} cannot be read`);
  const charset = parsed.parameters.get('charset') ?? 'utf-8';
  if (/^(?:utf-?8|us-ascii)$/i.test(charset)) return;
  throw unsupported(`The field ${JSON.stringify(field)} is in ${JSON.stringify(charset)}`, {
    hint: 'text is taken in UTF-8 only',
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

function unsupported(message: string, extra: { hint: string }): FieldpostError {
  return new FieldpostError('unsupported-media-type', message, extra);
}
