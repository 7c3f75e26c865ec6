/**
 * The source tree as test/tidy.test.ts looks at it: files by path, and what the compiler's parser finds in
 * one.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

/** Text by path from the top of the repository, such as `src/mail/store/record.ts`. */
export type Tree = ReadonlyMap<string, string>;

/** The text files under these directories whose names end with one of `endings`. */
export function readTree(directories: readonly string[], endings: readonly string[]): Tree {
  const found: [string, string][] = [];
  for (const directory of directories.filter((name) => existsSync(name))) {
    const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
    for (const entry of entries) {
      const path = join(entry.parentPath ?? entry.path, entry.name);
      const wanted = entry.isFile() && endings.some((ending) => path.endsWith(ending));
      if (wanted && !path.includes('node_modules') && !/^build\/(?:dist|out|test)\//.test(path))
        found.push([path, readFileSync(path, 'utf8')]);
    }
  }
  return new Map(found.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** One import or re-export. */
interface Import {
  /** As it is written. */
  readonly from: string;
  /** True if nothing of it is left in the compiled code. */
  readonly typeOnly: boolean;
  /** True if it is loaded only when the code gets there: `import()`. */
  readonly lazy: boolean;
  /** What is imported by name. */
  readonly names: readonly string[];
}

// Several rules look at the same file, and parsing it is most of the work.
const parsed = new Map<string, ts.SourceFile>();

/** The parsed file; nodes know their parents. */
export function parse(path: string, text: string): ts.SourceFile {
  const key = `${path}\n${text}`;
  const file = parsed.get(key) ?? ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  parsed.set(key, file);
  return file;
}

/** Every import of the file, `import()` and re-exports included. */
export function importsOf(file: ts.SourceFile): Import[] {
  const found: Import[] = [];
  walk(file, (node) => {
    if (ts.isImportDeclaration(node)) found.push(readImport(node));
    else if (ts.isExportDeclaration(node) && node.moduleSpecifier !== undefined) {
      found.push({ from: textOf(node.moduleSpecifier), typeOnly: node.isTypeOnly, lazy: false, names: [] });
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      found.push({ from: textOf(node.arguments[0]), typeOnly: false, lazy: true, names: [] });
    }
  });
  return found;
}

function readImport(node: ts.ImportDeclaration): Import {
  const clause = node.importClause;
  const named = clause?.namedBindings;
  const elements = named !== undefined && ts.isNamedImports(named) ? [...named.elements] : [];
  const onlyTypes =
    elements.length > 0 && clause?.name === undefined && elements.every((element) => element.isTypeOnly);
  return {
    from: textOf(node.moduleSpecifier),
    typeOnly: (clause?.isTypeOnly ?? false) || onlyTypes,
    lazy: false,
    names: elements.map((element) => (element.propertyName ?? element.name).text),
  };
}

function textOf(node: ts.Node | undefined): string {
  return node !== undefined && ts.isStringLiteralLike(node) ? node.text : '';
}

/** Where the file uses the global `name` (`process`) or its member (`Date.now`), as `path:line`. */
export function usesOf(file: ts.SourceFile, name: string): string[] {
  const [global = '', member] = name.split('.');
  const found: string[] = [];
  walk(file, (node) => {
    if (!ts.isIdentifier(node) || node.text !== global || isNameOfSomethingElse(node)) return;
    const { parent } = node;
    const accessed =
      ts.isPropertyAccessExpression(parent) && parent.expression === node ? parent.name.text : null;
    if (member === undefined || accessed === member) found.push(placeOf(file, node));
  });
  return found;
}

function isNameOfSomethingElse(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent) || ts.isQualifiedName(parent)) {
    return (ts.isPropertyAccessExpression(parent) ? parent.name : parent.right) === node;
  }
  const named =
    ts.isPropertyAssignment(parent) || ts.isPropertySignature(parent) || ts.isMethodSignature(parent);
  return (
    (named || ts.isMethodDeclaration(parent) || ts.isPropertyDeclaration(parent)) && parent.name === node
  );
}

/** The level, and the text of the event, of every log call: `log.info('…')` on anything called log. */
export function logEventsOf(file: ts.SourceFile): { place: string; level: string; event: string | null }[] {
  const found: ReturnType<typeof logEventsOf> = [];
  walk(file, (node) => {
    if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return;
    const { expression, name } = node.expression;
    const isLog = /(?:^|\.)#?log$/.test(expression.getText(file));
    if (!isLog || !['debug', 'info', 'warn', 'error'].includes(name.text)) return;
    const [event] = node.arguments;
    const text = event !== undefined && ts.isStringLiteralLike(event) ? event.text : null;
    found.push({ place: placeOf(file, node), level: name.text, event: text });
  });
  return found;
}

/** Exported functions, classes, interfaces and types that no doc comment stands before, as `path:line name`. */
export function undocumentedIn(file: ts.SourceFile): string[] {
  const found: string[] = [];
  for (const node of file.statements) {
    const declared =
      ts.isFunctionDeclaration(node) ||
      ts.isClassDeclaration(node) ||
      ts.isInterfaceDeclaration(node) ||
      ts.isTypeAliasDeclaration(node);
    if (!declared || !isExported(node) || ts.getJSDocCommentsAndTags(node).length > 0) continue;
    found.push(`${placeOf(file, node)} ${node.name?.text ?? 'default'}`);
  }
  return found;
}

/** Variables at the top of the file that can change. */
export function topLevelStateIn(file: ts.SourceFile): string[] {
  const changing = file.statements.filter(
    (node) =>
      ts.isVariableStatement(node) &&
      (node.declarationList.flags & ts.NodeFlags.Const) === 0 &&
      !isAmbient(node),
  );
  return changing.map((node) => placeOf(file, node));
}

/** Functions and methods longer than this many lines, as `path:line name: n lines`. */
export function longFunctionsIn(file: ts.SourceFile, linesMax: number): string[] {
  const found: string[] = [];
  walk(file, (node) => {
    if (!ts.isFunctionLike(node)) return;
    const lineOf = (position: number) => file.getLineAndCharacterOfPosition(position).line;
    const lines = lineOf(node.getEnd()) - lineOf(node.getStart(file)) + 1;
    const name = node.name?.getText(file) ?? '(anonymous)';
    if (lines > linesMax) found.push(`${placeOf(file, node)} ${name}: ${lines} lines`);
  });
  return found;
}

/** The exported classes, interfaces and types of the file. */
export function exportedTypesOf(file: ts.SourceFile): { name: string; place: string }[] {
  return file.statements.flatMap((node) => {
    const isType =
      ts.isClassDeclaration(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node);
    return isType && isExported(node) && node.name !== undefined
      ? [{ name: node.name.text, place: placeOf(file, node) }]
      : [];
  });
}

/** True if anything of the file is left to run once its types are gone. */
export function hasLogic(file: ts.SourceFile): boolean {
  return file.statements.some(
    (node) =>
      ts.isFunctionDeclaration(node) ||
      ts.isClassDeclaration(node) ||
      (ts.isVariableStatement(node) && !isAmbient(node)),
  );
}

/** Every regular expression: the pattern as it is written, or null and what `new RegExp` is given. */
export function patternsOf(file: ts.SourceFile): { place: string; pattern: RegExp | null; from: string }[] {
  const found: ReturnType<typeof patternsOf> = [];
  walk(file, (node) => {
    const place = placeOf(file, node);
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/');
      const pattern = new RegExp(node.text.slice(1, end), node.text.slice(end + 1));
      found.push({ place, pattern, from: '' });
    } else if (
      (ts.isNewExpression(node) || ts.isCallExpression(node)) &&
      node.expression.getText(file) === 'RegExp'
    )
      found.push({ place, pattern: null, from: node.arguments?.[0]?.getText(file) ?? '' });
  });
  return found;
}

function isExported(node: ts.Node): boolean {
  return (
    ts.canHaveModifiers(node) &&
    (ts.getModifiers(node) ?? []).some((one) => one.kind === ts.SyntaxKind.ExportKeyword)
  );
}

function isAmbient(node: ts.Node): boolean {
  return (
    ts.canHaveModifiers(node) &&
    (ts.getModifiers(node) ?? []).some((one) => one.kind === ts.SyntaxKind.DeclareKeyword)
  );
}

function placeOf(file: ts.SourceFile, node: ts.Node): string {
  return `${file.fileName}:${file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1}`;
}

function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  ts.forEachChild(node, (child) => walk(child, visit));
}
