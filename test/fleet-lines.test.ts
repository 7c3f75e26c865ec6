/** What the operator's page and the commands of the cloud say of devices. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { fleetHeadline, joiningSteps, troubleOf } from '../src/base/fleet-lines.js';

t.test('devices: the headline tells the worst', async (t) => {
  const none = { offline: 0, online: 0, moved: 0, unheard: 0, attention: 0, quiet: 0 };
  const more = 'there are too many: 3 calls of others refused';
  for (const [counts, refused, mood, words] of [
    [{}, 0, 'soft', 'no device has called yet'],
    [{ unheard: 2 }, 0, 'soft', 'no device has called yet'],
    [{ online: 1, unheard: 2 }, 0, 'good', '1 of 3 devices is online, none is offline'],
    [{ online: 1 }, 0, 'good', '1 device, online'],
    [{ online: 2 }, 0, 'good', '2 devices, all online'],
    [{ online: 1, offline: 1 }, 0, 'bad', '1 of 2 devices is offline'],
    [{ offline: 2, moved: 1 }, 0, 'bad', '2 of 3 devices are offline'],
    [{ online: 1, moved: 1 }, 0, 'good', '1 of 2 devices is online, none is offline'],
    [{ online: 2, attention: 1 }, 0, 'uneasy', '2 devices, all online; 1 needs attention'],
    [
      { online: 1, moved: 1, attention: 2 },
      0,
      'uneasy',
      '1 of 2 devices is online, none is offline; 2 need attention',
    ],
    [{ online: 1, offline: 1, attention: 2 }, 0, 'bad', '1 of 2 devices is offline; 2 need attention'],
    [{ online: 2 }, 3, 'uneasy', `2 devices, all online; ${more}`],
    [{ online: 2, quiet: 1 }, 0, 'good', '2 devices, all online; 1 is quiet'],
    [
      { online: 1, offline: 2, attention: 1, quiet: 2 },
      0,
      'bad',
      '2 of 3 devices are offline; 1 needs attention; 2 are quiet',
    ],
    [{ online: 2, attention: 1 }, 3, 'uneasy', `2 devices, all online; 1 needs attention; ${more}`],
  ] as const)
    t.same(fleetHeadline({ ...none, ...counts }, refused), [mood, words]);
});

t.test(
  'devices: a failing relay, failed messages and late programs are trouble, and nothing else',
  async (t) => {
    const queue = { queued: 5, deferred: 5, failed: 0 };
    const late: readonly string[] = [];
    t.equal(troubleOf({ relay: 'ok', queue, late }), null);
    t.equal(troubleOf({ relay: null, queue: null, late }), null);
    t.equal(troubleOf({ relay: 'failing', queue, late }), 'relay failing');
    t.equal(
      troubleOf({ relay: 'failing', queue: { ...queue, failed: 1 }, late }),
      'relay failing, 1 message failed',
    );
    t.equal(troubleOf({ relay: 'ok', queue, late: ['plc-reader', 'backup'] }), 'plc-reader and backup late');
  },
);

t.test('joining: the key goes where the packaged unit reads it', async (t) => {
  const [[, save], [where, settings]] = joiningSteps('https://cloud.example/v1/', 'pump-3') as [
    [string, string],
    [string, string],
  ];
  const unit = readFileSync(new URL('../systemd/fieldpost.service', import.meta.url), 'utf8');
  const [, file] = /^LoadCredential=cloud-key:(.+)$/m.exec(unit) ?? [];
  t.match(save, ` /etc/credstore/${file}`);
  const [, envFile] = /^EnvironmentFile=-(.+)$/m.exec(unit) ?? [];
  t.match(where, `Add to ${envFile}:`);
  t.equal(settings, 'FIELDPOST_CLOUD=https://cloud.example/v1\nFIELDPOST_DEVICE_ID=pump-3');
});
