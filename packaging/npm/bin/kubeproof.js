#!/usr/bin/env node
// Runs the program of the platform's package: `npx kubeproof serve`.
'use strict';

const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const { findProgram } = require('../lib/program.js');

let program;
try {
  program = findProgram();
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  // A Ctrl-C of the terminal reaches the program by itself.
  process.on(signal, () => signal !== 'SIGINT' && child.kill(signal));
}
child.on('error', (error) => {
  console.error(`error: cannot run ${program}: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
