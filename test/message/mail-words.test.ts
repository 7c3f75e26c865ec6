/** Words of other mailers: refused with a hint, in every usual spelling; other names are not. */
import { test } from 'tap';
import { FieldpostError } from '../../src/base/errors.js';
import { parseDrafts } from '../../src/mail/message/draft.js';
import { mailWordFault } from '../../src/mail/message/fields.js';

const MAIL = new Set(
  'type destination priority expires_in_s to cc bcc from reply_to headers subject plain html'.split(' '),
);
const SMS = new Set(['type', 'destination', 'priority', 'expires_in_s', 'message']);

function faultsOf(fields: object, cloud: object | null = null) {
  try {
    parseDrafts([fields], {
      maxBatch: 1,
      cloud,
      mayBeFrom: () => false,
      homesOf: (address) => [address],
    });
  } catch (error) {
    if (error instanceof FieldpostError) return error.faults;
    throw error;
  }
  return [];
}

test('field names of other mailers are refused, and the hint names ours', (t) => {
  const hints: [names: string, hint: RegExp][] = [
    ['text body content msg textBody TextBody plain_text text-plain', /called plain/],
    ['htmlBody HtmlBody body_html html_content HTMLPart', /called html/],
    ['recipient recipients rcpt toAddresses mailto destinations', /called to, cc and bcc/],
    ['ccRecipients bcc_addresses', /called cc or bcc/],
    ['sender from_email fromName', /called from/],
    ['mail_from return-path', /bounces go to the sender/],
    ['replyToAddress reply_to_list', /called reply_to/],
    ['in_reply_to References', /one of the headers/],
    ['custom_headers Header', /called headers/],
    [
      'To CC Bcc From replyTo Reply-To Priority expiresInS',
      /is written (to|cc|bcc|from|reply_to|priority|expires_in_s)/,
    ],
    ['attachments attachment files file inlineImages', /multipart\/form-data/],
    ['template_id personalizations raw markdown amp', /send subject, plain and html/],
    ['send_at scheduledAt', /as soon as/],
    ['Subject SUBJECT sub_ject', /is written subject/],
    ['HTML Plain', /is written (html|plain)/],
  ];
  for (const [names, hint] of hints) {
    for (const name of names.split(' ')) t.match(mailWordFault(name, MAIL), hint, name);
  }
  t.match(mailWordFault('text', SMS), /called message/);
  t.match(mailWordFault('Message', SMS), /is written message/);
  t.match(mailWordFault('to', SMS), /called destination/);
  t.match(mailWordFault('cc', SMS), /one message for each/);
  for (const name of ['from', 'reply_to', 'headers', 'References', 'return_path']) {
    t.match(mailWordFault(name, SMS), /only an email/, name);
  }
  t.match(mailWordFault('attachments', SMS), /only an email/);
  t.match(mailWordFault('raw', SMS), /send subject/, 'other hints are the same');
  t.end();
});

test('other names are none of these', (t) => {
  const names =
    'id sound category tag message title auto_open app_data importance email x __proto__ constructor é';
  for (const name of names.split(' ')) t.equal(mailWordFault(name, MAIL), null, name);
  for (const name of ['subject', 'plain', 'html', 'title']) t.equal(mailWordFault(name, SMS), null, name);
  t.end();
});

test('a field with a value is a fault, at its place; an empty one is ignored', (t) => {
  const mail = { type: 1, destination: 'john@example.com', subject: 'Hi' };
  t.match(faultsOf({ ...mail, text: 'The alarm', recipients: ['a@example.com'], sound: 'x' }), [
    { pointer: '/0/text', detail: /plain/ },
    { pointer: '/0/recipients', detail: /to, cc and bcc/ },
  ]);
  t.match(faultsOf({ ...mail, 'to/~': 'x' }), [{ pointer: '/0/to~1~0' }]);
  for (const empty of ['', null, false, [], {}]) {
    t.same(faultsOf({ ...mail, recipients: empty, attachments: empty }), [], JSON.stringify(empty));
  }
  for (const something of ['x', 0, true, [null], { a: 1 }])
    t.equal(faultsOf({ ...mail, recipients: something }).length, 1);
  const sms = { type: 2, destination: '+31612345678', message: 'Hi' };
  t.match(faultsOf({ ...sms, from: 'us' }, {}), [{ pointer: '/0/from' }]);
  t.same(
    faultsOf({ ...sms, subject: 'x', plain: 'y', title: 'z' }, {}),
    [],
    'fields of the published API are none',
  );
  t.end();
});
