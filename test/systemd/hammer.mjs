/**
 * A client within the container: `node hammer.mjs FILE`. Four at a time it posts mails, each over a connection of its
 * own, until it is sent SIGTERM; then it writes what came of them to FILE: {ids, trouble}. A 503 is told and tried again.
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
      {
        host: '127.0.0.1',
        port: 43770,
        method: 'POST',
        path: '/api/internal/messages',
        headers,
        agent: false,
      },
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
