#!/usr/bin/env node
// Packs this package and that of one platform, whose program is a file: node pack.js --binary FILE --into DIR
// [--platform linux-x64]. Without --platform it is the platform that runs this.
'use strict';

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');

const root = __dirname;
const license = path.join(root, '..', '..', 'LICENSE');
const { values } = parseArgs({
  options: {
    binary: { type: 'string' },
    into: { type: 'string' },
    platform: { type: 'string', default: `${process.platform}-${process.arch}` },
  },
});
const { binary, into, platform } = values;
const main = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'));
const name = `@kubeproof/${platform}`;
if (!binary || !into) throw new Error('usage: pack.js --binary FILE --into DIR [--platform OS-CPU]');
if (!(name in main.optionalDependencies)) throw new Error(`package.json names no ${name}`);

const staged = fs.mkdtempSync(path.join(os.tmpdir(), 'kubeproof-pack-'));
try {
  const ofPlatform = path.join(staged, platform);
  fs.mkdirSync(path.join(ofPlatform, 'bin'), { recursive: true });
  fs.copyFileSync(binary, path.join(ofPlatform, 'bin', 'kubeproof'));
  fs.chmodSync(path.join(ofPlatform, 'bin', 'kubeproof'), 0o755);
  const [system, cpu] = platform.split('-');
  const { version, repository } = main;
  const manifest = {
    name,
    version,
    description: `The program kubeproof for ${platform}`,
    license: main.license,
    repository,
    os: [system],
    cpu: [cpu],
    files: ['bin'],
    preferUnplugged: true,
  };
  fs.writeFileSync(path.join(ofPlatform, 'package.json'), JSON.stringify(manifest, null, 2));
  const whole = path.join(staged, 'main');
  for (const file of ['package.json', 'README.md', ...main.files]) {
    fs.cpSync(path.join(root, file), path.join(whole, file), { recursive: true });
  }
  fs.mkdirSync(into, { recursive: true });
  for (const directory of [ofPlatform, whole]) {
    fs.copyFileSync(license, path.join(directory, 'LICENSE'));
    execFileSync('npm', ['pack', '--silent', '--pack-destination', path.resolve(into)], {
      cwd: directory,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
  }
} finally {
  fs.rmSync(staged, { recursive: true });
}
