'use strict';

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Control, ControlError } = require('./control.js');
const { findProgram } = require('./program.js');

const ANNOUNCEMENT = 'listening on ';
const STOP_MILLISECONDS = 10_000;

class StartError extends Error {
  constructor(message) {
    super(message);
    this.name = 'StartError';
  }
}

class Kubeproof {
  #child;
  #directory;
  #ended;
  #killAtExit = () => this.#child.kill('SIGTERM');

  static async start(options = {}) {
    const server = new Kubeproof();
    await server.#start(options);
    return server;
  }

  async #start(options) {
    const program = options.program ?? findProgram();
    this.#directory = fs.mkdtempSync(path.join(os.tmpdir(), 'kubeproof-'));
    this.kubeconfig = path.join(this.#directory, 'kubeconfig.yaml');
    const stderr = fs.openSync(this.#stderr, 'w');
    // In a session of its own: a Ctrl-C of the terminal ends the tests, which end the server.
    this.#child = spawn(program, ['serve', '--kubeconfig-out', this.kubeconfig, ...flags(options)], {
      stdio: ['ignore', 'pipe', stderr],
      detached: true,
    });
    fs.closeSync(stderr);
    this.#ended = new Promise((resolve) => {
      this.#child.on('exit', resolve);
      this.#child.on('error', resolve);
    });
    process.on('exit', this.#killAtExit);
    try {
      this.url = await this.#announced(options.startMilliseconds ?? 60_000);
      this.control = new Control(this.url, { token: options.token, authority: this.#authority() });
    } catch (error) {
      await this.stop();
      throw error;
    }
    // A server that is not stopped does not keep Node from ending, and ends with it.
    this.#child.stdout.destroy();
    this.#child.unref();
  }

  async stop() {
    process.off('exit', this.#killAtExit);
    const killed = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MILLISECONDS);
    this.#child.ref();
    this.#child.kill('SIGTERM');
    await this.#ended;
    clearTimeout(killed);
    fs.rmSync(this.#directory, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose]() {
    await this.stop();
  }

  get pid() {
    return this.#child.pid;
  }

  get output() {
    return fs.readFileSync(this.#stderr, 'utf8');
  }

  async createNamespace(prefix = 'test-') {
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { generateName: prefix } };
    return JSON.parse(await this.control.request('POST', '/api/v1/namespaces', body)).metadata.name;
  }

  async deleteNamespace(name) {
    await this.control.request('DELETE', `/api/v1/namespaces/${encodeURIComponent(name)}`);
  }

  get #stderr() {
    return path.join(this.#directory, 'stderr');
  }

  #announced(milliseconds) {
    return new Promise((resolve, reject) => {
      let isSettled = false;
      const fail = (what) => {
        // The pipe also closes after a failed start, when the output is deleted.
        if (!isSettled) reject(new StartError(`${what}: ${this.output.trim()}`));
        isSettled = true;
      };
      const late = setTimeout(() => fail(`kubeproof does not listen after ${milliseconds} ms`), milliseconds);
      let text = '';
      this.#child.stdout.setEncoding('utf8');
      this.#child.stdout.on('data', (part) => {
        text += part;
        const end = text.indexOf('\n');
        if (end < 0 || !text.startsWith(ANNOUNCEMENT)) return;
        clearTimeout(late);
        isSettled = true;
        resolve(text.slice(ANNOUNCEMENT.length, end).trim());
      });
      this.#child.on('error', (error) => {
        clearTimeout(late);
        isSettled = true;
        reject(new StartError(`cannot run kubeproof: ${error.message}`));
      });
      this.#child.on('close', () => {
        clearTimeout(late);
        fail('kubeproof has ended');
      });
    });
  }

  /** The certificate in the kubeconfig, if the server has one. */
  #authority() {
    const text = fs.readFileSync(this.kubeconfig, 'utf8');
    const found = /certificate-authority-data:(?: >-)?\s+(\S+)/.exec(text);
    return found ? Buffer.from(found[1], 'base64').toString() : undefined;
  }
}

function flags(options) {
  const { nodes = 0, controllers, load = [], fromLog, tls, token, pace, args = [] } = options;
  const given = ['--exit-with-parent', '--nodes', String(nodes)];
  if (controllers !== undefined) given.push('--controllers', controllers);
  for (const manifest of load) given.push('--load', manifest);
  if (fromLog !== undefined) given.push('--from-log', fromLog);
  if (tls) given.push('--tls');
  if (token !== undefined) given.push('--token', token);
  if (pace !== undefined) given.push('--pace', pace);
  return [...given, ...args];
}

module.exports = { Control, ControlError, Kubeproof, StartError, findProgram };
