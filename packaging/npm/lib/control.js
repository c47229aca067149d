'use strict';

const http = require('node:http');
const https = require('node:https');

const BAD_REQUEST = 400;

class ControlError extends Error {
  constructor(message, code) {
    super(message);
    this.name = 'ControlError';
    this.code = code;
  }
}

class Control {
  #url;
  #headers;
  #authority;

  constructor(url, { token, authority } = {}) {
    this.#url = url;
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.#authority = authority;
  }

  compact(resource) {
    return this.#post('compact', { resource });
  }

  bookmarkWatches(resource) {
    return this.#post('watches/bookmark', { resource });
  }

  closeWatches(resource) {
    return this.#post('watches/close', { resource });
  }

  dropWatches(resource) {
    return this.#post('watches/drop', { resource });
  }

  expireWatches(resource) {
    return this.#post('watches/expire', { resource });
  }

  restart() {
    return this.#post('restart', {});
  }

  jump(duration) {
    return this.#post('clock', { jump: duration });
  }

  advance(duration) {
    return this.#post('clock', { advance: duration });
  }

  snapshot() {
    return this.request('GET', '/kubeproof/v1/snapshot');
  }

  async importObjects(objects, { replace = false } = {}) {
    const body = { apiVersion: 'v1', kind: 'List', items: [...objects] };
    return JSON.parse(await this.request('POST', `/kubeproof/v1/import${replace ? '?replace=true' : ''}`, body));
  }

  async putMetric(value) {
    await this.request('POST', '/kubeproof/v1/metrics', value);
  }

  async metrics() {
    return JSON.parse(await this.request('GET', '/kubeproof/v1/metrics')).items;
  }

  async inject(fault) {
    await this.request('POST', '/kubeproof/v1/faults', fault);
  }

  async lift(name) {
    await this.request('DELETE', `/kubeproof/v1/faults/${encodeURIComponent(name)}`);
  }

  async faults() {
    return JSON.parse(await this.request('GET', '/kubeproof/v1/faults')).items;
  }

  async liftAll() {
    const names = new Set((await this.faults()).map((fault) => fault.name));
    for (const name of names) await this.#liftIfActive(name);
  }

  async withFault(fault, body) {
    await this.inject(fault);
    try {
      return await body();
    } finally {
      await this.#liftIfActive(fault.name);
    }
  }

  request(method, path, body) {
    const { request } = this.#url.startsWith('https:') ? https : http;
    const headers = { Accept: 'application/json', 'Content-Type': 'application/json', ...this.#headers };
    // A connection for each request: none is left open that could keep Node from ending.
    const options = { method, headers, ca: this.#authority, agent: false };
    return new Promise((resolve, reject) => {
      const sent = request(this.#url + path, options, (response) => {
        response.setEncoding('utf8');
        let text = '';
        response.on('data', (part) => (text += part));
        response.on('error', reject);
        response.on('end', () => {
          if (response.statusCode < 400) resolve(text);
          else reject(new ControlError(messageOf(text), response.statusCode));
        });
      });
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  async #post(endpoint, parameters) {
    const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
    const query = new URLSearchParams(given).toString();
    await this.request('POST', `/kubeproof/v1/${endpoint}${query && `?${query}`}`);
  }

  async #liftIfActive(name) {
    try {
      await this.lift(name);
    } catch (error) {
      if (error.code !== BAD_REQUEST) throw error;
    }
  }
}

/** The message of a Status, or the text itself. */
function messageOf(text) {
  try {
    return JSON.parse(text).message ?? text;
  } catch {
    return text;
  }
}

module.exports = { Control, ControlError };
