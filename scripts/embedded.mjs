/**
 * Long texts within a program. They are deflated, because they stay in its file: the page of the device takes 13 KB in place
 * of 26, the description of its API 10 in place of 42. Each is inflated when its module is loaded, with its first use.
 */
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { deflateRawSync } from 'node:zlib';

/** An expression whose value is `text`, for a module that begins with INFLATE. */
export function embedded(text) {
  return `inflateRawSync(Buffer.from('${deflateRawSync(text, { level: 9 }).toString('base64')}','base64')).toString()`;
}

/** The first line of such a module. */
export const INFLATE = "import { inflateRawSync } from 'node:zlib';";

/** A plugin: `import text from './x.json?text'` gives the text of the file without white space. */
export const jsonText = {
  name: 'json-text',
  resolveId: (id, importer) => (id.endsWith('.json?text') ? join(dirname(importer), id) : null),
  async load(id) {
    if (!id.endsWith('.json?text')) return null;
    const value = JSON.parse(await readFile(id.slice(0, -'?text'.length), 'utf8'));
    return { code: `${INFLATE}\nexport default ${embedded(JSON.stringify(value))};`, moduleType: 'js' };
  },
};
