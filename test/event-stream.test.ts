import t from 'tap';
import { EventParser } from '../src/base/event-stream.js';

t.test('events: whole ones, whatever the pieces are', async (t) => {
  const stream =
    'id: 1\nevent: state\ndata: {"a":1}\n\n: still here\n\nid: 2\r\nevent: message\r\ndata: {\r\ndata: }\r\n\r\ndata: x\n\nid: 9\ndata: cut';
  const events = [
    { event: 'state', data: '{"a":1}', id: '1' },
    { event: 'message', data: '{\n}', id: '2' },
    { event: 'message', data: 'x', id: '' },
  ];
  for (const size of [1, 2, 3, 7, 1000]) {
    const parser = new EventParser();
    const pieces = stream.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
    t.same(
      pieces.flatMap((piece) => parser.push(piece)),
      events,
      `${size}`,
    );
  }
});
