/**
 * A client in the container: `node hammer.mjs FILE`. It posts mails until SIGTERM, four at a time, each over a new
 * connection. Then it writes {ids, trouble} to FILE: the accepted ids, and how often each error came.
 */
import { writeFileSync } from 'node:fs';
import { request } from 'node:http';

const ids = [];
const trouble = {};
let isOver = false;
process.on('SIGTERM', () => {
  isOver = true;
});

function post() {
  const body = JSON.stringify([{ type: 1, destination: 'john@example.com', subject: 'hammer' }]);
  const headers = { 'content-type': 'application/json', 'content-length': body.length };
  return new Promise((resolve) => {
    const call = request(
      'http://127.0.0.1:43770/api/internal/messages',
      { method: 'POST', headers, agent: false },
      (answer) => {
        let text = '';
        answer.on('data', (chunk) => {
          text += chunk;
        });
        answer.on('end', () => {
          if (answer.statusCode === 202) ids.push(JSON.parse(text)[0].id);
          resolve(answer.statusCode === 202 ? null : `status ${answer.statusCode}`);
        });
      },
    );
    call.on('error', (error) => resolve(error.code ?? String(error)));
    call.end(body);
  });
}

await Promise.all(
  [1, 2, 3, 4].map(async () => {
    while (!isOver) {
      const what = await post();
      if (what !== null) trouble[what] = (trouble[what] ?? 0) + 1;
    }
  }),
);
writeFileSync(process.argv[2], JSON.stringify({ ids, trouble }));
