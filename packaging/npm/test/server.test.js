// The class and the command, without a framework: start, stop, control endpoints, and no orphans.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Control, Kubeproof, findProgram } from 'kubeproof';

const alone = { controllers: 'none' };
const command = path.resolve('node_modules/.bin/kubeproof');

async function listens(url) {
  const { hostname, port } = new URL(url);
  const socket = net.connect(Number(port), hostname);
  return new Promise((resolve) => {
    socket.on('connect', () => resolve(socket.destroy() && true));
    socket.on('error', () => resolve(false));
  });
}

async function withServer(options, body) {
  const server = await Kubeproof.start(options);
  try {
    await body(server);
  } finally {
    await server.stop();
  }
}

async function waitUntil(what, holds) {
  for (const end = Date.now() + 30_000; !(await holds()); await pause(50)) assert.ok(Date.now() < end, what);
}

test('the command runs the program', () => {
  const { stdout, status } = spawnSync(command, ['--version'], { encoding: 'utf8' });
  assert.match(stdout, /^kubeproof .*Kubernetes v1\./);
  assert.equal(status, 0);
  assert.equal(spawnSync(command, ['--no-such-flag']).status, 2);
});

test('a signal to the command ends the program', async () => {
  const shim = spawn(command, ['serve', '--controllers', 'none'], { stdio: ['ignore', 'pipe', 'ignore'] });
  const [line] = await once(shim.stdout, 'data');
  const url = String(line).trim().replace('listening on ', '');
  assert.ok(await listens(url));
  shim.kill('SIGTERM');
  assert.deepEqual(await once(shim, 'exit'), [0, null]);
  assert.ok(!(await listens(url)));
});

test('a server ends with stop', async () => {
  const server = await Kubeproof.start(alone);
  assert.equal(JSON.parse(await server.control.request('GET', '/version')).major, '1');
  // The server says this after it listens.
  await waitUntil('the output is lost', () => server.output.includes('no controllers'));
  await server.stop();
  assert.ok(!(await listens(server.url)));
  assert.ok(!fs.existsSync(server.kubeconfig));
});

for (const token of [undefined, 's3cret']) {
  test(`control works over TLS, ${token ? 'with' : 'without'} a token`, () =>
    withServer({ ...alone, tls: true, token }, async (server) => {
      assert.ok(server.url.startsWith('https://'));
      assert.deepEqual(await server.control.faults(), []);
      // Its authority is nobody else's.
      await assert.rejects(new Control(server.url, { token }).faults());
    }));
}

test('a wrong flag is an error with the words of the program', async () => {
  await assert.rejects(Kubeproof.start({ controllers: 'nobody' }), { name: 'StartError', message: /no controller "nobody"/ });
});

test('a program that does not listen is given up', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'kubeproof-test-'));
  const program = path.join(directory, 'program');
  fs.writeFileSync(program, '#!/bin/sh\nexec sleep 600\n', { mode: 0o755 });
  const started = Kubeproof.start({ program, startMilliseconds: 200 });
  await assert.rejects(started, { name: 'StartError', message: /does not listen after 200 ms/ });
  fs.rmSync(directory, { recursive: true });
  await assert.rejects(Kubeproof.start({ program }), { name: 'StartError', message: /cannot run/ });
});

test('a program that is named has to be there', () => {
  const named = process.env.KUBEPROOF_BINARY;
  process.env.KUBEPROOF_BINARY = '/none';
  try {
    assert.throws(findProgram, /KUBEPROOF_BINARY=\/none is not a program/);
  } finally {
    if (named === undefined) delete process.env.KUBEPROOF_BINARY;
    else process.env.KUBEPROOF_BINARY = named;
  }
});

test('the clock jumps, watches are controlled, and a snapshot is where another server begins', () =>
  withServer(alone, async ({ control, kubeconfig }) => {
    const created = async (name) => {
      const made = await control.request('POST', '/api/v1/namespaces/default/configmaps', { metadata: { name } });
      return Number(JSON.parse(made).metadata.creationTimestamp.slice(0, 4));
    };
    const year = await created('before');
    await control.jump('8760h');
    assert.equal(await created('after'), year + 1);
    await assert.rejects(control.advance('10h'), { name: 'ControlError', code: 400 });
    await control.compact('configmaps');
    await control.bookmarkWatches('configmaps');
    await control.closeWatches('configmaps');
    await control.dropWatches();
    await control.expireWatches('configmaps');
    await control.restart();
    await assert.rejects(control.lift('none'), { name: 'ControlError', code: 400 });
    const fromLog = `${kubeconfig}.jsonl`;
    fs.writeFileSync(fromLog, await control.snapshot());
    await withServer({ fromLog }, (other) =>
      other.control.request('GET', '/api/v1/namespaces/default/configmaps/before'),
    );
  }));

test('objects and values of metrics are put into a running server', () =>
  withServer({ ...alone, args: ['--metrics', 'all'] }, async ({ control }) => {
    const one = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { k: 'v' } };
    assert.equal((await control.importObjects([one])).stored, 1);
    const other = { ...one, data: { k: 'w' } };
    await assert.rejects(control.importObjects([other]), { name: 'ControlError', code: 409 });
    await control.importObjects([other], { replace: true });
    const stored = await control.request('GET', '/api/v1/namespaces/default/configmaps/a');
    assert.deepEqual(JSON.parse(stored).data, { k: 'w' });
    await control.putMetric({ name: 'queue_length', value: '30' });
    assert.deepEqual((await control.metrics()).map(({ name, value }) => [name, value]), [['queue_length', '30']]);
    await control.putMetric({ name: 'queue_length' });
    assert.deepEqual(await control.metrics(), []);
  }));

for (const end of ['killed', 'ends']) {
  test(`no server outlives a Node that ${end === 'killed' ? 'is killed' : 'ends'}`, async () => {
    const program =
      "import { Kubeproof } from 'kubeproof'; const server = await Kubeproof.start({ controllers: 'none' });" +
      "console.log(server.url); process.stdin.resume().on('end', () => {});";
    const node = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['pipe', 'pipe', 'inherit'] });
    const [line] = await once(node.stdout, 'data');
    const url = String(line).trim();
    assert.ok(await listens(url));
    const exited = once(node, 'exit');
    if (end === 'killed') node.kill('SIGKILL');
    else node.stdin.end();
    await exited;
    await waitUntil('the server ends', async () => !(await listens(url)));
  });
}
