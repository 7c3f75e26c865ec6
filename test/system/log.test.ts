/** The lines of the log: what a program and a person read, whatever a stranger put into a field. */
import t from 'tap';
import { createLog, type LogFields, type LogLevel } from '../../src/base/system/log.js';

const LEVELS = ['debug', 'info', 'warn', 'error'] as const;

function linesOf(level: LogLevel, priorities: boolean) {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const log = createLog({ level, priorities, write, wallMs: () => Date.UTC(2026, 10, 20, 9) });
  return { log, lines };
}

/** The line of one event with these fields, its priority and line break taken away. */
function lineOf(fields?: LogFields): string {
  const { log, lines } = linesOf('info', true);
  log.info('message queued', fields);
  t.equal(lines.length, 1);
  t.match(lines[0], /^<6>[^\n]*\n$/, 'one line, one break, at its end');
  return lines[0]?.slice(3, -1) ?? '';
}

t.test('for journald each level has its priority, for a person time and level', async (t) => {
  const journal = linesOf('debug', true);
  const screen = linesOf('debug', false);
  for (const level of LEVELS) {
    journal.log[level]('started', { port: 43770 });
    screen.log[level]('started', { port: 43770 });
  }
  t.same(journal.lines, [
    '<7>started port=43770\n',
    '<6>started port=43770\n',
    '<4>started port=43770\n',
    '<3>started port=43770\n',
  ]);
  t.same(screen.lines, [
    '2026-11-20T09:00:00.000Z debug started port=43770\n',
    '2026-11-20T09:00:00.000Z info  started port=43770\n',
    '2026-11-20T09:00:00.000Z warn  started port=43770\n',
    '2026-11-20T09:00:00.000Z error started port=43770\n',
  ]);
});

t.test('lines below the level are not made', async (t) => {
  LEVELS.forEach((level, at) => {
    const { log, lines } = linesOf(level, true);
    for (const each of LEVELS) log[each](each);
    t.same(
      lines.map((line) => line.slice(3, -1)),
      LEVELS.slice(at),
    );
  });
});

t.test('fields are plain if possible, else quoted, and left out if unset', async (t) => {
  t.equal(lineOf(), 'message queued');
  t.equal(lineOf({ id: '01JD', bytes: 0, held: false }), 'message queued id=01JD bytes=0 held=false');
  t.equal(lineOf({ reply: undefined, key: null, at: 'x' }), 'message queued at=x');
  t.equal(lineOf({ to: 'jörg@exämple.org' }), 'message queued to=jörg@exämple.org');
  t.equal(lineOf({ reply: '450 try later' }), 'message queued reply="450 try later"');
  t.equal(lineOf({ reason: '' }), 'message queued reason=""');
  t.equal(lineOf({ a: 'b=c' }), 'message queued a="b=c"', 'no field inside a value');
  t.equal(lineOf({ a: 'say "no"' }), 'message queued a="say \\"no\\""');
});

t.test('a value starts no line, forges no field and commands no terminal', async (t) => {
  const hostile: [string, string][] = [
    ['a\n<3>forged', 'a\\n<3>forged'],
    ['a\r\nb', 'a\\r\\nb'],
    ['\u001b[2J', '\\u001b[2J'],
    ['\u009b2J', '\\u009b2J'],
    ['\u007f', '\\u007f'],
    ['\u0085', '\\u0085'],
    ['\u2028\u2029', '\\u2028\\u2029'],
    ['\u202egnp.exe', '\\u202egnp.exe'],
    ['\u{e0041}', '\\udb40\\udc41'],
    ['\ud800', '\\ud800'],
    ['\0', '\\u0000'],
  ];
  for (const [value, escaped] of hostile) {
    const line = lineOf({ reply: value });
    t.equal(line, `message queued reply="${escaped}"`);
    t.equal(JSON.parse(line.slice('message queued reply='.length)), value, 'nothing is lost');
  }
});
