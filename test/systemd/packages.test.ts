/**
 * The packages, without the systems they are for. Two builds give the same bytes. Each package holds the program, with
 * its run-time packages compiled in, and nothing else. The program starts from where each recipe installs it.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { type Test, test } from 'tap';
import { MIB } from '../../src/base/limits.js';
import { startIn } from '../support/daemon.js';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
/** Not build/out: other tests install from there. */
const OUT = mkdtempSync(`${tmpdir()}/fieldpost-out-`);
process.once('exit', () => rmSync(OUT, { recursive: true, force: true }));
const INSTALL_BYTES_MAX = 1.5 * MIB;
const options = {
  skip: process.env.FIELDPOST_TEST_SYSTEMD === '1' ? false : 'needs FIELDPOST_TEST_SYSTEMD=1 and dpkg-deb',
};

const sh = (script: string, env: Record<string, string> = {}) =>
  execFileSync('bash', ['--norc', '-euc', script], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: process.env.HOME, LC_ALL: 'C.UTF-8', ...env },
  });

function scratch(t: Test): string {
  const directory = mkdtempSync(`${tmpdir()}/fieldpost-packages-`);
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** The groups of the unix sockets. A system without systemd-sysusers has only those that the recipe makes. */
const GROUPS = [
  ...readFileSync(`${REPOSITORY}/systemd/fieldpost.sysusers`, 'utf8').matchAll(/^g (\S+)/gm),
].map(([, group]) => group ?? '');

const files = (directory: string) => sh(`cd ${directory}; find . -type f | sort`).trim().split('\n');
const sha256 = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex');
const outFile = (pattern: RegExp) => `${OUT}/${readdirSync(OUT).find((name) => pattern.test(name))}`;

/** Makes an image of `root`, as Buildroot and Yocto do: every unit is enabled that no preset disables. */
function isListeningUnasked(root: string): boolean {
  sh(`systemctl --root=${root} preset-all 2>&1`);
  const wanted = sh(`cd ${root}/etc/systemd/system; find . -type l`).trim().split('\n');
  if (!wanted.includes('./sockets.target.wants/fieldpost.socket')) throw new Error('no unit was enabled');
  return wanted.includes('./sockets.target.wants/fieldpost-smtp.socket');
}

/** Starts the program that is installed below `root`, and posts a form to it. */
async function starts(t: Test, root: string): Promise<void> {
  const main = `${root}/usr/lib/fieldpost/build/dist/main.cjs`;
  // `shift` drops the path of this tree's program.
  const instead = ['/bin/sh', '-c', `shift; exec "${process.execPath}" -- "${main}" "$@"`, 'sh'];
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: `${root}/state` }, ['run'], instead);
  const form = new FormData();
  form.set('destination', 'john@example.com');
  form.set('subject', 'x');
  const answer = await fetch(`http://127.0.0.1:${daemon.port}/api/internal/messages`, {
    method: 'POST',
    body: form,
  });
  t.equal(answer.status, 202);
  t.equal(await daemon.end('SIGTERM'), 0);
}

test('two builds give the same bytes', options, async (t) => {
  const sums = () => sh(`cd ${OUT}; sha256sum *`);
  sh(`cd ${REPOSITORY}; umask 077; bash scripts/package --to ${OUT}`);
  const first = sums();
  t.equal(first.trim().split('\n').length, 8);
  sh(`cd ${REPOSITORY}; TZ=Asia/Tokyo bash scripts/package --to ${OUT}`);
  t.equal(sums(), first);
});

test('the Debian package holds the program and nothing else', options, async (t) => {
  const root = scratch(t);
  const deb = outFile(/^fieldpost_.*\.deb$/);
  sh(
    `dpkg-deb -x ${deb} ${root}; dpkg-deb -e ${deb} ${root}/DEBIAN; cd ${root}; md5sum --quiet -c DEBIAN/md5sums`,
  );
  t.same(files(`${root}/usr/lib/fieldpost`), ['./build/dist/main.cjs', './package.json', './reload']);
  sh(`dpkg-deb -x ${outFile(/^fieldpost-cloud_.*\.deb$/)} ${root}/cloud`);
  for (const name of files(`${REPOSITORY}/build/monitoring`)) {
    const doc = name.startsWith('./fieldpost-cloud')
      ? 'cloud/usr/share/doc/fieldpost-cloud'
      : 'usr/share/doc/fieldpost';
    t.equal(sha256(`${root}/${doc}/examples/${name}`), sha256(`${REPOSITORY}/build/monitoring/${name}`));
  }
  const copyright = readFileSync(`${root}/usr/share/doc/fieldpost/copyright`, 'utf8').replace(/^ \.?/gm, '');
  t.ok(copyright.endsWith(readFileSync(`${REPOSITORY}/build/dist/LICENSE`, 'utf8').replaceAll('\r', '')));
  const bytes = Number(sh(`du -s --apparent-size -B1 ${root}/usr/lib/fieldpost`).split('\t')[0]);
  t.comment(`${bytes} bytes`);
  t.ok(bytes <= INSTALL_BYTES_MAX, `${bytes} bytes installed`);
  const program = readFileSync(`${root}/usr/lib/fieldpost/build/dist/main.cjs`, 'utf8');
  const wanted = [...program.matchAll(/require\(["'`]([^"'`]+)["'`]\)/g)].map(([, from]) => from ?? '');
  t.ok(wanted.includes('node:http'));
  t.same(
    wanted.filter((name) => !name.startsWith('node:') && !builtinModules.includes(name)),
    [],
    'the program requires only modules of Node.js',
  );
  const owners = sh(`dpkg-deb -c ${deb}`).trim().split('\n');
  t.same(
    owners.filter((line) => !/^[d-]rw[x-]r-[x-]r-[x-] root\/root /.test(line)),
    [],
    'root owns every file, and no other user may write',
  );
  t.match(
    readFileSync(`${root}/usr/lib/sysctl.d/00-fieldpost.conf`, 'utf8'),
    /^-net\.ipv4\.ip_local_reserved_ports = /m,
  );
  await starts(t, root);
});

test('the packages carry the version of the program, and who answers for them', options, async (t) => {
  const field = (deb: string, name: string) => sh(`dpkg-deb -f ${deb} ${name}`).trim();
  const version = sh(`bash ${REPOSITORY}/scripts/version`).trim();
  const debs = readdirSync(OUT).filter((name) => name.endsWith('.deb'));
  t.equal(debs.length, 3);
  for (const name of debs) {
    t.equal(field(`${OUT}/${name}`, 'Version'), version);
    t.match(field(`${OUT}/${name}`, 'Maintainer'), /\.invalid>$/, 'nobody is made up');
    t.equal(field(`${OUT}/${name}`, 'Homepage'), '');
  }
  const root = scratch(t);
  sh(`dpkg-deb -x ${outFile(/^fieldpost_.*\.deb$/)} ${root}`);
  t.equal(
    sh(`${process.execPath} ${root}/usr/lib/fieldpost/build/dist/main.cjs version`).trim(),
    `fieldpost ${version}`,
  );
  const given = {
    FIELDPOST_PACKAGE_MAINTAINER: 'Jane & Co/Ltd <jane@example.com>',
    FIELDPOST_PACKAGE_HOMEPAGE: 'https://example.com/a?b=c',
  };
  sh(`cd ${REPOSITORY}; bash scripts/package --to ${root}/out deb buildroot yocto`, given);
  const deb = `${root}/out/fieldpost-cloud_${version}_all.deb`;
  t.equal(field(deb, 'Maintainer'), given.FIELDPOST_PACKAGE_MAINTAINER);
  t.equal(field(deb, 'Homepage'), given.FIELDPOST_PACKAGE_HOMEPAGE);
  sh(`cd ${root}; for file in out/fieldpost-buildroot-* out/fieldpost-yocto-*; do tar xzf $file; done`);
  const recipe = `${root}/meta-fieldpost/recipes-connectivity/fieldpost/fieldpost_${version}.bb`;
  t.match(readFileSync(recipe, 'utf8'), 'HOMEPAGE = "https://example.com/a?b=c"');
  const config = readFileSync(`${root}/fieldpost-buildroot/package/fieldpost/Config.in`, 'utf8');
  t.match(config, '\n\t  https://example.com/a?b=c\n');
});

test('the package fieldpost-mta holds links and no program', options, async (t) => {
  const root = scratch(t);
  sh(
    `dpkg-deb -x ${outFile(/^fieldpost-mta_.*\.deb$/)} ${root}; dpkg-deb -x ${outFile(/^fieldpost_.*\.deb$/)} ${root}`,
  );
  for (const page of ['man8/sendmail.8', 'man1/mailq.1', 'man1/newaliases.1'])
    t.match(sh(`zcat ${root}/usr/share/man/${page}.gz`), '\n.TH sendmail 8 ');
  for (const name of ['usr/sbin/sendmail', 'usr/lib/sendmail', 'usr/bin/mailq', 'usr/bin/newaliases'])
    t.equal(sh(`readlink -f ${root}/${name}`).trim(), `${root}/usr/bin/fieldpost`);
  t.same(
    files(`${root}/usr/lib/systemd/system/fieldpost-send.socket.d`),
    ['./mta.conf'],
    'every user may send',
  );
});

test('the package fieldpost-cloud holds the reference cloud and nothing of a device', options, async (t) => {
  const root = scratch(t);
  sh(`dpkg-deb -x ${outFile(/^fieldpost-cloud_.*\.deb$/)} ${root}`);
  t.same(files(`${root}/usr/lib`), [
    './fieldpost-cloud/cloud-main.cjs',
    './fieldpost-cloud/reload',
    './sysctl.d/00-fieldpost-cloud.conf',
    './systemd/system/fieldpost-cloud.service',
    './sysusers.d/fieldpost-cloud.conf',
  ]);
  t.same(files(`${root}/etc`), ['./fieldpost-cloud/fieldpost-cloud.env']);
  t.same(files(`${root}/usr/bin`), ['./fieldpost-cloud']);
  t.same(files(`${root}/usr/share/man`), [
    './man5/fieldpost-cloud.env.5.gz',
    './man7/fieldpost-fleet.7.gz',
    './man8/fieldpost-cloud.8.gz',
  ]);
  t.same(files(`${root}/usr/share/doc/fieldpost-cloud/examples`), [
    './Caddyfile',
    './fieldpost-cloud-dashboard.json',
    './fieldpost-cloud.rules.test.yml',
    './fieldpost-cloud.rules.yml',
    './haproxy.cfg',
    './nginx.conf',
  ]);
  const program = `${root}/usr/lib/fieldpost-cloud/cloud-main.cjs`;
  const launcher = readFileSync(`${root}/usr/bin/fieldpost-cloud`, 'utf8');
  t.ok(launcher.includes(` ${program.slice(root.length)} `), 'the script starts this file');
  const instead = ['/bin/sh', '-c', `shift; exec "${process.execPath}" -- "${program}" "$@"`, 'sh'];
  const cloud = await startIn(t, { FIELDPOST_STATE_DIR: `${root}/state` }, ['cloud'], instead);
  t.equal((await fetch(`http://127.0.0.1:${cloud.port}/healthz`)).status, 200);
  t.equal(await cloud.end('SIGTERM'), 0);
});

/** The pages with their sections in capitals; those of the README's list. */
const MANUAL = [
  'fieldpost.1',
  'fieldpost.env.5',
  'fieldpost-api.7',
  'fieldpost-link.7',
  'fieldpost-store.7',
  'fieldpost-cloud.8',
  'fieldpost-cloud.env.5',
  'fieldpost-fleet.7',
];

test('man, groff and mandoc have nothing to say about the manual pages', options, async (t) => {
  const root = scratch(t);
  for (const deb of [/^fieldpost_.*\.deb$/, /^fieldpost-mta_.*\.deb$/, /^fieldpost-cloud_.*\.deb$/])
    sh(`dpkg-deb -x ${outFile(deb)} ${root}`);
  const man = `${root}/usr/share/man`;
  const wanted = [...MANUAL, 'sendmail.8'].map((page) => `./man${page.at(-1)}/${page}.gz`);
  t.same(files(man), wanted.sort(), 'each in the directory of its section');
  for (const path of wanted.map((page) => `${man}/${page}`)) {
    for (const width of [80, 120]) {
      const warnings = `MANWIDTH=${width} man --warnings=w --local-file ${path} 2>&1 >/dev/null`;
      t.equal(sh(warnings), '', `groff at ${width} columns: ${path}`);
    }
    t.equal(sh(`zcat ${path} | mandoc -T lint -W warning 2>&1 || true`), '', `mandoc: ${path}`);
    t.match(sh(`lexgrog ${path}`), /: "(?:fieldpost|sendmail)[\w.-]* - \w/, 'apropos finds it');
    const [head = ''] = sh(`zcat ${path} | grep '^\\.TH'`).split('\n');
    t.match(
      head,
      new RegExp(`^\\.TH ${path.replace(/.*\/(.*)\.(\d)\.gz$/, '$1 $2')} \\d{4}-\\d\\d-\\d\\d "Fieldpost `),
    );
    const text = sh(`MANWIDTH=120 man --local-file ${path} | col -bx`);
    t.match(text, /^NAME\n.*^SEE ALSO\n/ms);
    t.notMatch(text, /<!--|\]\(|\*\*|^#|`/m, 'no Markdown is left');
  }
  t.match(
    sh(`MANWIDTH=80 man --local-file ${man}/man7/fieldpost-api.7.gz | col -bx`),
    /^ {7}GET \/healthz\n {14}200 while/m,
    'a table of two columns is a list of terms',
  );
});

test('lintian finds nothing in the Debian packages', options, async (t) => {
  const found = sh(
    `lintian --allow-root --pedantic --display-info --tag-display-limit 0 ${OUT}/*.deb 2>&1 || true`,
  );
  t.equal(found, '');
});

test('the single file runs without any other', options, async (t) => {
  const directory = scratch(t);
  sh(`cd ${directory}; tar xzf ${outFile(/single/)} --strip-components=1`);
  t.same(files(directory), ['./LICENSE', './fieldpost.cjs']);
  t.match(sh(`${directory}/fieldpost.cjs version`), /^fieldpost \d+\.\S+\n$/);
  const licence = readFileSync(`${directory}/LICENSE`, 'utf8');
  t.equal(licence, readFileSync('build/dist/LICENSE', 'utf8'));
});

test('the release and the archive of the cloud have the source maps', options, async (t) => {
  const directory = scratch(t);
  for (const archive of [/^fieldpost-0.*\.gz$/, /^fieldpost-cloud-0.*\.gz$/])
    sh(`cd ${directory}; tar xzf ${outFile(archive)} --strip-components=1`);
  t.match(sh(`${directory}/fieldpost-cloud.cjs version`), /^fieldpost-cloud \d+\.\S+\n$/);
  for (const [program, map] of [
    ['lib/build/dist/main.cjs', 'main.cjs.map'],
    ['fieldpost-cloud.cjs', 'cloud-main.cjs.map'],
  ]) {
    const lines = readFileSync(`${directory}/${program}`, 'utf8').split('\n');
    const line = lines.findIndex((text) => text.includes('FieldpostError=class'));
    const column = lines[line]?.indexOf('FieldpostError=class') ?? -1;
    const trace = `at x (${program}:${line + 1}:${column + 1})`;
    const found = sh(`node ${REPOSITORY}/scripts/trace.mjs ${directory}/${map} <<< '${trace}'`);
    const [, path = 'LICENSE', at] = /^at x \((src\/[\w/]+\.ts):(\d+):\d+\)/.exec(found) ?? [];
    const source = readFileSync(`${REPOSITORY}/${path}`, 'utf8').split('\n')[Number(at) - 1];
    t.match(source, /^export class FieldpostError /, found);
  }
});

// Stands for Buildroot: runs the recipe's install step on an unpacked package.
const BUILDROOT = `
define generic-package
endef
include fieldpost.mk
$(SOURCE)/.stamp_target_installed:
	$(FIELDPOST_INSTALL_TARGET_CMDS)
	$(foreach hook,$(FIELDPOST_POST_INSTALL_TARGET_HOOKS),$($(hook)))
`;

test('the program starts from where the Buildroot recipe installs it', options, async (t) => {
  const directory = scratch(t);
  sh(`cd ${directory}; tar xzf ${outFile(/buildroot/)}`);
  const recipe = `${directory}/fieldpost-buildroot/package/fieldpost`;
  const [, hash, archive] =
    /^sha256 {2}(\w+) {2}(\S+)$/m.exec(readFileSync(`${recipe}/fieldpost.hash`, 'utf8')) ?? [];
  t.equal(hash, sha256(`${recipe}/${archive}`));
  t.notMatch(
    sh(`find ${recipe} -type f ! -name '${archive}' -exec cat {} + | grep '^[^#]*@[A-Z]' || :`),
    /@[A-Z0-9]+@/,
    'every placeholder is filled in',
  );
  const mk = readFileSync(`${recipe}/fieldpost.mk`, 'utf8');
  for (const group of GROUPS) t.match(mk, `- - ${group} -1`);
  writeFileSync(`${recipe}/Makefile`, BUILDROOT);
  sh(`mkdir ${directory}/source; tar xzf ${recipe}/${archive} --strip-components=1 -C ${directory}/source`);
  const install = (...options: string[]) =>
    sh(
      `make -s -C ${recipe} SOURCE=${directory}/source TARGET_DIR=${directory}/target ${options.join(' ')} ${directory}/source/.stamp_target_installed`,
    );
  install();
  t.notOk(existsSync(`${directory}/target/usr/sbin/sendmail`), 'sendmail is an option');
  install('BR2_PACKAGE_FIELDPOST_MTA=y');
  t.equal(
    sh(`readlink -f ${directory}/target/usr/sbin/sendmail`).trim(),
    `${directory}/target/usr/bin/fieldpost`,
  );
  for (const path of ['systemd/system/fieldpost.service', 'sysctl.d/00-fieldpost.conf'])
    t.ok(files(`${directory}/target`).includes(`./usr/lib/${path}`), path);
  t.notOk(isListeningUnasked(`${directory}/target`), 'port 25 is opened only if somebody enables it');
  await starts(t, `${directory}/target`);
});

test('the program starts from where the Yocto recipe installs it', options, async (t) => {
  const directory = scratch(t);
  sh(`cd ${directory}; tar xzf ${outFile(/yocto/)}`);
  const layer = `${directory}/meta-fieldpost/recipes-connectivity/fieldpost`;
  const name = readdirSync(layer).find((file) => file.endsWith('.bb')) ?? '';
  const recipe = readFileSync(`${layer}/${name}`, 'utf8');
  const version = /^fieldpost_(.+)\.bb$/.exec(name)?.[1];
  sh(`cd ${directory}; tar xzf ${layer}/files/fieldpost-${version}.tar.gz`);
  const source = `${directory}/fieldpost-${version}`;
  const licence = createHash('md5')
    .update(readFileSync(`${source}/LICENSE`))
    .digest('hex');
  t.match(recipe, `file://LICENSE;md5=${licence}`);
  t.notMatch(recipe, /@[A-Z0-9]+@/, 'every placeholder is filled in');
  for (const group of GROUPS) t.match(recipe, `--system ${group}`);
  // The variables of bitbake.conf that the step uses. sh allows no dots or colons in names; the step has none.
  const step = /^do_install\(\) \{\n([\s\S]*?)\n\}$/m.exec(recipe)?.[1] ?? '';
  const variables = {
    S: source,
    D: `${directory}/image`,
    mandir: '/usr/share/man',
    nonarch_libdir: '/usr/lib',
  };
  sh(step, { ...variables, systemd_system_unitdir: '/usr/lib/systemd/system' });
  const installed = files(`${directory}/image`);
  for (const path of [
    './usr/lib/systemd/system/fieldpost.socket',
    './usr/lib/systemd/system/fieldpost-smtp.socket',
    './usr/share/man/man1/fieldpost.1',
    './usr/share/man/man5/fieldpost.env.5',
    './usr/share/bash-completion/completions/fieldpost',
    './usr/share/zsh/site-functions/_fieldpost',
    './usr/share/fish/vendor_completions.d/fieldpost.fish',
    './usr/bin/fieldpost',
    './usr/lib/systemd/system-preset/50-fieldpost.preset',
    './usr/lib/systemd/system/fieldpost-send.socket.d/mta.conf',
    './usr/lib/sysctl.d/00-fieldpost.conf',
  ])
    t.ok(installed.includes(path), path);
  t.equal(
    sh(`readlink -f ${directory}/image/usr/sbin/sendmail`).trim(),
    `${directory}/image/usr/bin/fieldpost`,
  );
  t.notOk(isListeningUnasked(`${directory}/image`), 'port 25 is opened only if somebody enables it');
  await starts(t, `${directory}/image`);
});
