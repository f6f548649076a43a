// Which Host is answered: what nobody outside can have, and the names that were told; a page that rebinds its DNS name gets 421.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { PATIENCE, program, start } from './harness.mjs';

let s;
before(async () => { s = await start({ fake: true, args: ['--name', 'chat.example.com *.example.org chat.example.com'] }); });
after(() => s?.stop());

/** The status line's number and the body, of a request with exactly this Host. */
async function ask(host, { method = 'GET', where = '/health', version = '1.1', more = '', body = '' } = {}) {
  const got = await s.raw(`${method} ${where} HTTP/${version}\r\n${host === null ? '' : `Host: ${host}\r\n`}Connection: close\r\n${more}\r\n${body}`);
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(got)?.[1]), text: got.slice(got.indexOf('\r\n\r\n') + 4), head: got };
}

test('addresses, localhost, names of the local network and those told are answered', async () => {
  for (const host of ['127.0.0.1', `192.168.1.5:${s.port}`, '[::1]', '[fe80::1]:8080', 'localhost', 'LOCALHOST:80', 'sluice.localhost', 'mybox', 'mybox:8080',
    'mybox.local', 'MyBox.Local:8080', 'mybox.lan', 'mybox.home', 'a.mybox.home.arpa', 'host.docker.internal', 'chat.example.com', 'CHAT.example.com:443',
    'a.example.org', 'a.b.example.org', 'chat.example.com.'])
    assert.equal((await ask(host)).status, 200, host);
  assert.equal((await ask(null, { version: '1.0' })).status, 200, 'no Host, which no browser sends');
});

test('any other name gets 421 on every path, with a text that says what to do', async () => {
  const large = JSON.stringify({ name: 'a', password: 'x'.repeat(40000) });
  for (const host of ['evil.example', `evil.example:${s.port}`, 'example.org', 'achat.example.com', 'chat.example.com.evil.example', 'localhost.evil.example',
    '127.0.0.1.evil.example', 'local', 'xlocal.example', 'box.local.evil.example', 'chataexample.com'].filter((h) => h.includes('.')))
    for (const request of [{}, { where: '/' }, { where: '/admin' }, { where: '/v1/models' }, { where: '/metrics' }, { where: '/s/abc' }, { where: '/nothing' },
      { where: '/api/login', method: 'POST', more: `Content-Type: application/json\r\nContent-Length: ${large.length}\r\n`, body: large }]) {
      const r = await ask(host, request);
      assert.equal(r.status, 421, `${host} ${request.where}: ${r.head.slice(0, 200)}`);
      const { error } = JSON.parse(r.text);
      assert.deepEqual([error.type, error.param, error.code], ['invalid_request_error', 'Host', 'unknown_host']);
      assert.match(error.message, /--name NAME/);
      assert.match(r.head, /\r\nX-Content-Type-Options: nosniff\r\n/);
    }
  assert.equal((await ask('localhost', { where: 'http://evil.example/health' })).status, 421, 'the name in the request line counts');
});

test('a name that is none is refused at the start', () => {
  for (const name of ['a b;c', 'x$y.example', 'chat..', '.example.org', '*', '*.', 'a".example', 'bücher.example', 'x'.repeat(300)]) {
    const r = spawnSync(program('sluice'), ['up', '--state', `${s.dir}/other`, '--share-dir', s.places.share, '--bin-dir', s.places.binDir, '--model', `${s.places.share}`, '--name', name],
      { encoding: 'utf8', timeout: PATIENCE });
    assert.notEqual(r.status, 0, name);
    assert.match(r.stderr, /name: .*is no DNS name/, name);
  }
});
