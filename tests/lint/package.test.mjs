// The Debian package agrees with what it packs: version, build packages, units, users, options, the files that are there.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const read = (...name) => readFileSync(path.join(top, ...name), 'utf8');
const field = (text, name) => new RegExp(`^${name}: ([^\n]*(?:\n [^\n]*)*)`, 'm').exec(text)?.[1].replace(/\n /g, ' ') ?? '';
const packages = (list) => list.split(',').map((p) => p.trim().split(' ')[0]).filter(Boolean);

test('the newest entry of the changelog, and the PKGBUILD, are of the version that is built', () => {
  const version = /AC_INIT\(\[sluice\], \[([^\]]+)\]\)/.exec(read('configure.ac'))[1];
  assert.match(read('debian/changelog').split('\n')[0], new RegExp(`^sluice \\(${version.replaceAll('.', '\\.')}-\\d+\\) `));
  assert.match(read('arch/PKGBUILD'), new RegExp(`^pkgver=${version.replaceAll('.', '\\.')}$`, 'm'));
});

test('what quickstart builds with is what the package builds with', () => {
  const control = read('debian/control');
  const wanted = /^build_packages="([^"]+)"/m.exec(read('quickstart'))[1].split(/\s+/);
  const has = new Set(packages(field(control, 'Build-Depends')));
  const runs = new Set([...packages(field(control, 'Depends')), ...packages(field(control, 'Recommends'))]);
  // build-essential and debhelper bring these; the unit tests are not run while a package is built
  const brought = new Set(['gcc', 'make', 'autoconf', 'automake', 'libc6-dev', 'xz-utils', 'libcmocka-dev']);
  const instead = { 'nginx-light': 'nginx' };
  for (const p of wanted) {
    if (!brought.has(p)) assert.ok(has.has(p) || runs.has(instead[p] ?? p), `${p} of quickstart is not in debian/control`);
  }
  for (const p of has) if (/-dev$|-tools$/.test(p)) assert.ok(wanted.includes(p), `${p} of debian/control is not in quickstart`);
});

test('the service starts what there is: options of `sluice up`, users that are made', () => {
  const unit = read('nginx/sluice.service.in'), start = /^ExecStart=.*$/m.exec(unit)[0], up = read('fcgi/cli/cmd_up.c');
  for (const [, name] of start.matchAll(/ --([a-z-]+)/g)) assert.ok(up.includes(`{"${name}", OPTION_`), name);
  const accounts = read('nginx/sysusers.conf');
  for (const [, option, user] of start.matchAll(/ --(user|engine-user) (\S+)/g)) assert.match(accounts, new RegExp(`^u ${user} `, 'm'), option);
  const file = /^EnvironmentFile=-@SYSCONFDIR@\/(\S+)$/m.exec(unit)[1], variable = /\$([A-Z_]+)$/.exec(start)[1];
  assert.match(read('debian/sluice.install'), new RegExp(`^debian/${path.basename(file)} etc/${path.dirname(file)}$`, 'm'));
  assert.match(read('debian', path.basename(file)), new RegExp(`^${variable}=`, 'm'));
});

test('the units that engine.env configures name its variables', () => {
  const units = read('nginx/sluice-engine.service.in') + read('nginx/sluice-worker@.service.in');
  for (const [, name] of read('debian/engine.env').matchAll(/^([A-Z_]+)=/gm)) assert.match(units, new RegExp(`\\$\\{?${name}\\b`), name);
});

test('the service that the package starts is the one that other units make way for', () => {
  const conflicts = /^Conflicts=(.*)$/m.exec(read('nginx/sluice.service.in'))[1].split(' ');
  assert.deepEqual(conflicts, ['sluice-engine.service', ...['stream', 'short', 'record', 'relay'].map((p) => `sluice-worker@${p}.service`)]);
  assert.match(read('debian/rules'), /^\tdh_installsystemd sluice\.service$/m);
});

test('every file of debian/ is in the lists, and scripts parse', () => {
  const files = execFileSync('git', ['-C', top, 'ls-files', '-co', '--exclude-standard', 'debian'], { encoding: 'utf8' }).split('\n').filter(Boolean);
  const listed = new Set([...read('debian/local.mk').matchAll(/%D%\/(\S+)/g)].map(([, f]) => `debian/${f}`));
  for (const f of files) if (f !== 'debian/local.mk') assert.ok(listed.has(f), `${f} is not in debian/local.mk`);
  for (const f of listed) assert.ok(existsSync(path.join(top, f)), f);
  for (const f of ['debian/sluice.postinst', 'debian/sluice.postrm']) execFileSync('sh', ['-n', path.join(top, f)]);
  assert.ok(statSync(path.join(top, 'debian/rules')).mode & 0o100, 'debian/rules can be run');
});

test('the link that an installation prints comes from a command that there is', () => {
  const made = /sluice (user invite [^\\\n]*?) 2>/.exec(read('debian/sluice.postinst'))[1], user = read('fcgi/cli/cmd_user.c');
  assert.ok(user.includes('"invite"'));
  for (const [, name] of made.matchAll(/ --([a-z-]+)/g)) assert.ok(user.includes(`{"${name}", OPTION_`), name);
});

test('the image starts what there is, as a user of its own, and keeps one folder', () => {
  const file = read('Containerfile'), up = read('fcgi/cli/cmd_up.c'), entry = JSON.parse(/^ENTRYPOINT (\[.*\])$/m.exec(file)[1]);
  for (const word of entry.filter((w) => w.startsWith('--'))) assert.ok(up.includes(`{"${word.slice(2)}", OPTION_`), word);
  const state = entry[entry.indexOf('--state') + 1];
  assert.equal(/^VOLUME (\S+)$/m.exec(file)[1], state);
  assert.match(read('nginx/sysusers.conf'), new RegExp(`^u ${/^USER (\S+)$/m.exec(file)[1]} `, 'm'));
  assert.ok(file.includes(`find ${state} -mindepth 1 -delete`), 'no image holds a database and a link');
});

test('the PKGBUILD parses, and keeps the configuration that the package of Debian keeps', () => {
  for (const f of ['arch/PKGBUILD', 'arch/sluice.install']) execFileSync('bash', ['-n', path.join(top, f)]);
  for (const [, f, where] of read('debian/sluice.install').matchAll(/^debian\/(\S+) (\S+)$/gm)) assert.ok(read('arch/PKGBUILD').includes(`'${where}/${f}'`), f);
});
