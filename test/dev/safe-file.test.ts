/** What a browser gets of a mail: nothing in it can do harm. */
import t from 'tap';
import { MIB } from '../../src/base/limits.js';
import { hasLoneSurrogate } from '../../src/base/text.js';
import type { MailFile } from '../../src/dev/reader.js';
import { attachmentNamed, safeFileName, withImages } from '../../src/dev/reader.js';

t.test('a file name names a file in the directory of downloads', async (t) => {
  const cases: readonly (readonly [string, string])[] = [
    ['report.pdf', 'report.pdf'],
    ['Zażółć 日本.pdf', 'Zażółć 日本.pdf'],
    ['../../etc/passwd', 'passwd'],
    ['C:\\Windows\\system.ini', 'system.ini'],
    ['..', 'file-1'],
    ['.bashrc', 'bashrc'],
    ['a\r\nSet-Cookie: x=1', 'aSet-Cookie_ x=1'],
    ['a\u202egpj.exe', 'agpj.exe'],
    ['a"b<c>|d?.txt', 'a_b_c_d_.txt'],
    ['\ud800', 'file-1'],
    ['', 'file-1'],
    ['/', '_'],
    [' . ', 'file-1'],
  ];
  for (const [name, safe] of cases) t.equal(safeFileName(name, 'file-1'), safe, JSON.stringify(name));
  t.equal(safeFileName('x'.repeat(5000), '').length, 150);
  t.equal(hasLoneSurrogate(safeFileName(`x${'😀'.repeat(5000)}`, '')), false, 'no character is halved');
});

t.test('the header of a download has its name twice: in ASCII, and in full', async (t) => {
  t.equal(
    attachmentNamed("Żółw (1)'s 100%.pdf"),
    `attachment; filename="___w (1)'s 100_.pdf"; filename*=UTF-8''%C5%BB%C3%B3%C5%82w%20%281%29%27s%20100%25.pdf`,
  );
});

const image = (contentId: string, octets: Buffer, type = 'image/png'): MailFile => ({
  name: '',
  type,
  contentId,
  octets,
});

t.test('images of the mail are put into its HTML; nothing else is', async (t) => {
  const files = [
    image('logo@x', Buffer.from('png')),
    image('a b', Buffer.from('gif'), 'image/gif'),
    image('page', Buffer.from('<script>'), 'text/html'),
    image('odd', Buffer.from('x'), 'image/png"><script>'),
    image('', Buffer.from('x')),
  ];
  t.equal(
    withImages(`<img src="cid:logo@x"><td background='CID:logo%40x'><i style="a:url(cid:a%20b)">`, files),
    '<img src="data:image/png;base64,cG5n">' +
      `<td background='data:image/png;base64,cG5n'><i style="a:url(data:image/gif;base64,Z2lm)">`,
  );
  const kept = '<a href="cid:page"><img src="cid:odd"><img src="cid:none"><img src="cid:%"> acid:logo@x';
  t.equal(withImages(kept, files), kept);
  t.equal(withImages(kept, []), kept);
});

t.test('an image that the HTML names a thousand times does not fill the memory', async (t) => {
  const html = '<img src="cid:a">'.repeat(1000);
  const made = withImages(html, [image('a', Buffer.alloc(MIB))]);
  t.ok(made.length < 33 * MIB, `${made.length}`);
  t.equal(made.match(/data:/g)?.length, 23, 'those that fit into 32 MiB');
});
