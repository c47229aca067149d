import type { KubeConfig } from '@kubernetes/client-node';
import type { TestAPI } from 'vitest';
import type { Kubeproof, Options } from './index.js';

/** The fixtures of a test. */
export interface Fixtures {
  /** The server of this file, without the care that `kubeproof` takes after each test. */
  server: Kubeproof;
  /** The server of this file. Faults that a test injects are lifted after it. */
  kubeproof: Kubeproof;
  /** The configuration of `@kubernetes/client-node` for the server. */
  kubeConfig: KubeConfig;
  /** A namespace for this test, which is deleted after it. */
  namespace: string;
}

/** Returns vitest's `test` with the fixtures, for a server with these options. */
export function kubeproofTest(options?: Options): TestAPI<Fixtures>;

/** Vitest's `test` with the fixtures, for a server with one node and all controllers. */
export const test: TestAPI<Fixtures>;
