import type { KubeConfig } from '@kubernetes/client-node';
import type { Kubeproof, Options } from './index.js';

/** What a test of `useKubeproof` has. The properties are set before each test. */
export interface Current {
  /** The server of this file. Faults that a test injects are lifted after it. */
  readonly server: Kubeproof;
  /** The configuration of `@kubernetes/client-node` for the server. */
  readonly kubeConfig: KubeConfig;
  /** A namespace for this test, which is deleted after it. */
  readonly namespace: string;
}

/** Starts a server before the tests of a file or `describe` block, with one node unless options are given, and stops it after them. */
export function useKubeproof(options?: Options): Current;
