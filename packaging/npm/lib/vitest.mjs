import { test as base } from 'vitest';
import { kubeConfig } from './client-node.js';
import { Kubeproof } from './index.js';

export function kubeproofTest(options = { nodes: 1 }) {
  return base.extend({
    server: [
      // Vitest reads which fixtures a function takes from its first parameter.
      async ({}, use) => {
        const server = await Kubeproof.start(options);
        await use(server);
        await server.stop();
      },
      { scope: 'file' },
    ],
    kubeproof: async ({ server }, use) => {
      await use(server);
      await server.control.liftAll();
    },
    kubeConfig: async ({ server }, use) => {
      await use(await kubeConfig(server));
    },
    namespace: async ({ server }, use) => {
      const name = await server.createNamespace();
      await use(name);
      await server.deleteNamespace(name);
    },
  });
}

export const test = kubeproofTest();
