/**
 * Forms by curl, Python, Java, Node's fetch and a browser. Their attachments reach the relay unchanged, as an independent
 * parser reads them.
 */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import t, { type Test } from 'tap';
import { MESSAGES } from '../support/api.js';
import { startIn } from '../support/daemon.js';
import { contentOf, otherRelay } from '../support/other-relay.js';
import { sharedDirectory, skipWithout } from './peers.js';

const CHROMIUM = '/usr/bin/chromium';

/** Every octet, in an order unlike text, line ends included. */
const BYTES = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31 + (i >> 8) * 7) & 255));
const TEXT = Buffer.from('a;b\r\n1;2\r\n--x\r\n');
const NAMES = { binary: 'Grüße 🦆 1.png', text: 'tab"le.csv' };

const PYTHON = `
import http.client, sys, uuid
port, binary, text = int(sys.argv[1]), open(sys.argv[2], 'rb').read(), open(sys.argv[3], 'rb').read()
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from email import policy, generator
import io
form = MIMEMultipart('form-data')
def add(content, type, name, filename=None):
    part = MIMENonMultipart(*type.split('/'))
    extra = {} if filename is None else {'filename': ('utf-8', '', filename)}
    part.add_header('Content-Disposition', 'form-data', name=name, **extra)
    part.add_header('Content-Transfer-Encoding', 'binary')
    part.set_payload(content.decode('latin1'))
    form.attach(part)
add(b'john@example.com', 'text/plain', 'destination')
add('Grüße von Python'.encode(), 'text/plain', 'subject')
add(binary, 'image/png', 'file', ${JSON.stringify(NAMES.binary)})
add(text, 'text/csv', 'file', ${JSON.stringify(NAMES.text)})
boundary = uuid.uuid4().hex
body = b''
for part in form.get_payload():
    head = ''.join(f'{k}: {v}\\r\\n' for k, v in part.items() if k != 'MIME-Version')
    body += b'--' + boundary.encode() + b'\\r\\n' + head.encode() + b'\\r\\n' + part.get_payload().encode('latin1') + b'\\r\\n'
body += b'--' + boundary.encode() + b'--\\r\\n'
connection = http.client.HTTPConnection('127.0.0.1', port)
connection.request('POST', '${MESSAGES}', body, {'Content-Type': 'multipart/form-data; boundary=' + boundary})
answer = connection.getresponse()
print(answer.status, answer.read().decode())
`;

const JARS = ['httpmime', 'httpclient', 'httpcore', 'commons-logging', 'commons-codec'].map(
  (name) => `/usr/share/java/${name}.jar`,
);

/**
 * Apache HttpClient, which labels its texts ISO-8859-1; and HttpURLConnection with the boundary that programs for Android copy
 * from each other, and a bare LF behind the last one.
 */
const JAVA = `
import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import org.apache.http.HttpResponse;
import org.apache.http.client.methods.HttpPost;
import org.apache.http.entity.ContentType;
import org.apache.http.entity.mime.*;
import org.apache.http.impl.client.HttpClients;

public class Upload {
  static final String BINARY = "Gr\\u00fc\\u00dfe \\ud83e\\udd86 1.png";

  public static void main(String[] args) throws Exception {
    byte[] binary = Files.readAllBytes(Path.of(args[1])), text = Files.readAllBytes(Path.of(args[2]));
    HttpPost post = new HttpPost(args[0]);
    post.setEntity(MultipartEntityBuilder.create().setMode(HttpMultipartMode.RFC6532)
      .addTextBody("destination", "john@example.com").addTextBody("subject", "Gr\\u00fc\\u00dfe von HttpClient")
      .addBinaryBody("file", binary, ContentType.create("image/png"), BINARY)
      .addBinaryBody("file", text, ContentType.create("text/csv"), "tab\\"le.csv").build());
    HttpResponse answer = HttpClients.createDefault().execute(post);
    System.out.print(answer.getStatusLine().getStatusCode());

    HttpURLConnection connection = (HttpURLConnection) new URL(args[0]).openConnection();
    connection.setDoOutput(true);
    connection.setRequestProperty("Content-Type", "multipart/form-data;boundary=*****");
    OutputStream out = connection.getOutputStream();
    part(out, "destination\\"", "", "john@example.com".getBytes());
    part(out, "subject\\"", "", "Gr\\u00fc\\u00dfe von HttpURLConnection".getBytes(StandardCharsets.UTF_8));
    part(out, "file\\";filename=\\"" + BINARY + "\\"", "image/png", binary);
    part(out, "file\\";filename=\\"tab\\\\\\"le.csv\\"", "text/csv", text);
    out.write("--*****--\\n".getBytes());
    System.out.println(" " + connection.getResponseCode());
  }

  static void part(OutputStream out, String name, String type, byte[] content) throws IOException {
    String head = "--*****\\r\\nContent-Disposition: form-data; name=\\"" + name + "\\r\\n"
      + (type.isEmpty() ? "" : "Content-Type: " + type + "\\r\\n") + "\\r\\n";
    out.write(head.getBytes(StandardCharsets.UTF_8));
    out.write(content);
    out.write("\\r\\n".getBytes());
  }
}
`;

/** A page that posts a form with both files to its own site. */
const PAGE = `<script>
  const bytes = new Uint8Array(300000).map((_, i) => (i * 31 + (i >> 8) * 7) & 255);
  const form = new FormData();
  form.append('file', new File([bytes], ${JSON.stringify(NAMES.binary)}, { type: 'image/png' }));
  form.append('destination', 'john@example.com');
  form.append('subject', 'Grüße von Chromium');
  form.append('file', new File([${JSON.stringify(TEXT.toString())}], ${JSON.stringify(NAMES.text)}, { type: 'text/csv' }));
  form.append('none', new File([], ''));
  fetch('${MESSAGES}', { method: 'POST', body: form });
</script>`;

/** A page of another site that submits a form, which would be a mail, to the daemon. */
const ELSEWHERE = (
  url: string,
) => `<form method="post" enctype="multipart/form-data" action="${url}${MESSAGES}">
  <input name="destination" value="john@example.com"><input name="subject" value="From elsewhere">
</form><script>document.forms[0].submit()</script>`;

/** A web server with this page; it passes posts on to the daemon. */
async function startSite(t: Test, port: number, page: string): Promise<string> {
  const site = createServer((req, res) => {
    if (req.method === 'GET') return res.setHeader('Content-Type', 'text/html; charset=utf-8').end(page);
    const { method, url: path = '', headers } = req;
    return req.pipe(
      request({ host: '127.0.0.1', port, method, path, headers }, (answer) => answer.pipe(res)),
    );
  }).listen(0, '127.0.0.1');
  t.teardown(() => site.close());
  await once(site, 'listening');
  return `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
}

/** Opens the page in a headless browser until the test ends. */
function browse(t: Test, url: string): void {
  const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run'];
  const profile = `--user-data-dir=${sharedDirectory(t)}`;
  // A process group of its own, so that one signal ends all its processes.
  const { pid = 0 } = spawn(CHROMIUM, [...flags, profile, '--remote-debugging-port=0', url], {
    stdio: 'ignore',
    detached: true,
  });
  t.teardown(() => process.kill(-pid, 'SIGKILL'));
}

const skip = skipWithout(CHROMIUM, '/usr/bin/javac', ...JARS);

t.test('forms of other programs arrive whole', { skip }, async (t) => {
  const mails: Buffer[] = [];
  let read = 0;
  const relay = await otherRelay({
    onMail: async (mail) => {
      mails.push(await contentOf(mail));
    },
  });
  t.teardown(relay.close);
  const directory = sharedDirectory(t);
  const daemon = await startIn(t, {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_FROM: 'device@field.example',
    FIELDPOST_LOG: 'debug',
    FIELDPOST_RELAY: relay.url,
  });
  const url = `http://127.0.0.1:${daemon.port}`;
  const binary = join(directory, 'binary');
  const text = join(directory, 'text');
  writeFileSync(binary, BYTES);
  writeFileSync(text, TEXT);

  /** The next mail that arrives. */
  const next = async () => {
    await relay.arrived(++read);
    return await PostalMime.parse(mails.shift() as Buffer);
  };
  const sum = (bytes: Uint8Array | Buffer) => createHash('sha256').update(bytes).digest('hex');
  const isWhole = async (subject: string) => {
    const mail = await next();
    t.equal(mail.subject, subject);
    t.same(
      mail.attachments.map(({ filename, mimeType, content }) => [
        filename,
        mimeType,
        sum(new Uint8Array(content as ArrayBuffer)),
      ]),
      [
        [NAMES.binary, 'image/png', sum(BYTES)],
        [NAMES.text, 'text/csv', sum(TEXT)],
      ],
      subject,
    );
  };

  const quoted = NAMES.text.replaceAll('"', '\\"');
  const answer = execFileSync('/usr/bin/curl', [
    '-sS',
    `${url}${MESSAGES}`,
    '-Fdestination=john@example.com',
    '-Fsubject=Grüße von curl',
    `-Ffile=@${binary};type=image/png;filename="${NAMES.binary}"`,
    `-Ffile=@${text};type=text/csv;filename="${quoted}"`,
  ]);
  t.match(JSON.parse(answer.toString()), [{ status: 'queued' }]);
  await isWhole('Grüße von curl');

  t.match(
    execFileSync('/usr/bin/python3', ['-c', PYTHON, String(daemon.port), binary, text]).toString(),
    /^202 /,
  );
  await isWhole('Grüße von Python');

  // curl puts both into one part.
  const together = ['-sS', `${url}${MESSAGES}`, '-Fdestination=john@example.com', '-Fsubject=x'];
  t.match(JSON.parse(execFileSync('/usr/bin/curl', [...together, `-Ffile=@${binary},${text}`]).toString()), {
    status: 415,
    detail: /"file" has several files in one part; .*-F file=@one -F file=@two/,
  });

  const upload = join(directory, 'Upload.java');
  writeFileSync(upload, JAVA);
  const java = ['-cp', JARS.join(':'), upload, `${url}${MESSAGES}`, binary, text];
  const statuses = execFileSync('/usr/bin/java', java).toString();
  // Else the mails are waited for in vain.
  if (statuses !== '202 202\n') throw new Error(statuses);
  await isWhole('Grüße von HttpClient');
  await isWhole('Grüße von HttpURLConnection');

  const form = new FormData();
  form.append('subject', 'Grüße von undici');
  form.append('file', new File([BYTES], NAMES.binary, { type: 'image/png' }));
  form.append('file', new File([TEXT], NAMES.text, { type: 'text/csv' }));
  form.append('destination', 'john@example.com');
  t.equal((await fetch(`${url}${MESSAGES}`, { method: 'POST', body: form })).status, 202);
  await isWhole('Grüße von undici');

  browse(t, await startSite(t, daemon.port, PAGE));
  await isWhole('Grüße von Chromium');
  // Browsers let any page submit a form to any site.
  browse(t, await startSite(t, daemon.port, ELSEWHERE(url)));
  while (!daemon.lines.some((line) => /request refused method=POST .*code=not-local/.test(line))) {
    await daemon.nextLine();
  }
  const listed = (await (await fetch(`${url}${MESSAGES}`)).json()) as { messages: unknown[] };
  t.equal(listed.messages.length, 6, 'the form of the other site is not accepted');
  t.equal(await daemon.end('SIGTERM'), 0);
});
