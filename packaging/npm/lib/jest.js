'use strict';

const { Kubeproof } = require('./index.js');
const { kubeConfig } = require('./client-node.js');

function useKubeproof(options = { nodes: 1 }) {
  const { beforeAll, beforeEach, afterEach, afterAll } = globalThis;
  const current = {};
  beforeAll(async () => {
    current.server = await Kubeproof.start(options);
    current.kubeConfig = await kubeConfig(current.server);
  });
  beforeEach(async () => {
    current.namespace = await current.server.createNamespace();
  });
  afterEach(async () => {
    await current.server.control.liftAll();
    await current.server.deleteNamespace(current.namespace);
  });
  afterAll(async () => {
    await current.server?.stop();
  });
  return current;
}

module.exports = { useKubeproof };
