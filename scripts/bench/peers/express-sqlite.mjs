/**
 * What one would put together from well known parts: Express, SQLite that syncs every commit, nodemailer's
 * pool. PORT and STATE_DIR in the environment; RELAY_PORT too if messages are to be delivered.
 */
import { mkdirSync } from 'node:fs';
import Database from 'better-sqlite3';
import express from 'express';
import nodemailer from 'nodemailer';

const { PORT, STATE_DIR = '', RELAY_PORT } = process.env;
mkdirSync(STATE_DIR, { recursive: true });
const database = new Database(`${STATE_DIR}/queue.db`);
database.pragma('journal_mode = WAL');
database.pragma('synchronous = FULL');
database.exec(
  `CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, type INTEGER, destination TEXT, subject TEXT, plain TEXT, status TEXT);
   CREATE INDEX IF NOT EXISTS message_status ON message (status) WHERE status = 'queued';`,
);
const insert = database.prepare(
  `INSERT INTO message (type, destination, subject, plain, status) VALUES (?, ?, ?, ?, 'queued')`,
);
const insertAll = database.transaction((messages) =>
  messages.map(({ type, destination, subject, plain }) => ({
    id: String(insert.run(type, destination, subject, plain).lastInsertRowid),
    type,
    destination,
    status: 'queued',
  })),
);
const oldest = database.prepare(`SELECT * FROM message WHERE status = 'queued' ORDER BY id LIMIT 1`);
const settle = database.prepare(
  `UPDATE message SET status = 'sent', subject = NULL, plain = NULL WHERE id = ?`,
);

const relay =
  RELAY_PORT &&
  nodemailer.createTransport({
    host: '127.0.0.1',
    port: Number(RELAY_PORT),
    pool: true,
    maxConnections: 1,
    maxMessages: Number.POSITIVE_INFINITY,
    ignoreTLS: true,
  });
let delivering = false;
async function deliver() {
  if (!relay || delivering) return;
  delivering = true;
  for (let message = oldest.get(); message; message = oldest.get()) {
    const { id, destination, subject, plain } = message;
    await relay.sendMail({ from: 'peer@localhost', to: destination, subject, text: plain });
    settle.run(id);
  }
  delivering = false;
}

const app = express();
app.disable('x-powered-by');
app.get('/healthz', (_request, response) => response.send('ok'));
app.post('/api/internal/messages', express.json({ limit: '1mb' }), (request, response) => {
  response.status(202).json(insertAll(request.body));
  deliver();
});
app.listen(Number(PORT), '127.0.0.1');
// What an earlier run has left in the queue.
deliver();
process.on('SIGTERM', () => {
  database.close();
  process.exit(0);
});
