'use strict';

const fs = require('node:fs');
const path = require('node:path');

const NAME = 'kubeproof';

/** The package of this platform, which npm installs as an optional dependency. */
const PLATFORM_PACKAGE = `@kubeproof/${process.platform}-${process.arch}`;

function findProgram() {
  const named = process.env.KUBEPROOF_BINARY;
  if (named) {
    if (!isProgram(named)) throw new Error(`KUBEPROOF_BINARY=${named} is not a program`);
    return named;
  }
  const installed = ofPlatformPackage();
  if (installed) return installed;
  for (const directory of (process.env.PATH ?? '').split(path.delimiter)) {
    const candidate = path.join(directory, NAME);
    // The shim of this package would run itself for ever.
    if (directory && isProgram(candidate) && !isShim(candidate)) return candidate;
  }
  throw new Error(
    `the package ${PLATFORM_PACKAGE} is not installed (npm leaves it out with --omit=optional, and it may not exist for ` +
      'this platform); install it, or set KUBEPROOF_BINARY',
  );
}

function ofPlatformPackage() {
  try {
    const manifest = require.resolve(`${PLATFORM_PACKAGE}/package.json`, { paths: [__dirname] });
    const program = path.join(path.dirname(manifest), 'bin', NAME);
    return isProgram(program) ? program : undefined;
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

function isProgram(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

/** Whether a file is a script instead of the program: npm's links and wrappers begin with `#!`. */
function isShim(file) {
  const start = Buffer.alloc(2);
  const open = fs.openSync(file, 'r');
  try {
    fs.readSync(open, start);
  } finally {
    fs.closeSync(open);
  }
  return start.toString('latin1') === '#!';
}

module.exports = { findProgram };
