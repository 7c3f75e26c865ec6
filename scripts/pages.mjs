/**
 * Makes a page of src/pages one text: `import page from './status.html'` gives the document with its style sheet and its
 * program in it, and the Content-Security-Policy that allows these two and nothing else.
 *
 * The document names them as it would on a web server: `<link rel="stylesheet" href="style.css">`, once or more, and
 * `<script type="module" src="status.ts"></script>`, once.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build } from 'rolldown';
import { embedded, INFLATE } from './embedded.mjs';

const STYLE = /<link rel="stylesheet" href="([\w./-]+)">\n?/g;
const SCRIPT = /<script type="module" src="([\w./-]+)"><\/script>/;

export const pages = {
  name: 'pages',
  async load(id) {
    if (!id.endsWith('.html')) return null;
    const document = await readFile(id, 'utf8');
    const styles = [...document.matchAll(STYLE)].map(([, path = '']) => styleOf(join(dirname(id), path)));
    const style = (await Promise.all(styles)).join('');
    const script = await scriptOf(join(dirname(id), SCRIPT.exec(document)?.[1] ?? ''));
    const html = document
      .replace(/<!--.*?-->\n?/gs, '')
      .replace(/\n\s*/g, '\n')
      .replace(STYLE, '')
      .replace('</head>', () => `<style>${style}</style>\n</head>`)
      .replace(SCRIPT, () => `<script type="module">${script}</script>`);
    const allows = JSON.stringify([hashOf(script), hashOf(style)]);
    return {
      code: `${INFLATE}\nexport default { html: ${embedded(html)}, allows: ${allows} };`,
      moduleType: 'js',
    };
  },
};

/** The style sheet without comments and indentation. */
async function styleOf(path) {
  const text = await readFile(path, 'utf8');
  return text
    .replace(/\/\*.*?\*\//gs, '')
    .replace(/\s*\n\s*/g, '')
    .replace(/ ?([{}:;,]) /g, '$1');
}

/** The program of a page, with all that it imports. */
async function scriptOf(path) {
  const { output } = await build({
    input: path,
    platform: 'browser',
    // A browser has no modules of Node.
    onLog(_, { message }) {
      throw new Error(message);
    },
    write: false,
    transform: { target: 'es2022' },
    // The page is one text in ASCII, as all of the program.
    output: { format: 'esm', minify: true, charset: 'ascii' },
  });
  const [{ code }] = output;
  if (code.includes('</script')) throw new Error(`${path} contains </script`);
  return code.trim();
}

function hashOf(text) {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
