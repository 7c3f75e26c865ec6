import t from 'tap';
import { charsetOf, decode } from '../src/base/charset.js';

t.test('the names that are read', async (t) => {
  for (const name of ['UTF-8', 'utf8', 'US-ASCII']) t.equal(charsetOf(name), 'utf8', name);
  for (const name of ['ISO-8859-1', 'Latin1', 'windows-1252']) t.equal(charsetOf(name), 'latin1', name);
  for (const name of ['', 'iso-8859-15', 'utf-16', 'constructor']) t.equal(charsetOf(name), undefined, name);
});

t.test('every octet of ISO-8859-1, with the characters of Windows-1252', async (t) => {
  const octets = Buffer.from(Array.from({ length: 256 }, (_, octet) => octet));
  // index-windows-1252 of the Encoding Standard. The TextDecoder of Node.js 20 does not follow it.
  const windows =
    '20ac 81 201a 192 201e 2026 2020 2021 2c6 2030 160 2039 152 8d 17d 8f 90 2018 2019 201c 201d 2022 2013 2014 2dc 2122 161 203a 153 9d 17e 178';
  const points = [...octets.keys()];
  points.splice(0x80, 0x20, ...windows.split(' ').map((hex) => Number.parseInt(hex, 16)));
  t.equal(decode(octets, 'latin1'), String.fromCodePoint(...points));
  t.equal(decode(Buffer.from('Grüße €'), 'utf8'), 'Grüße €');
});
