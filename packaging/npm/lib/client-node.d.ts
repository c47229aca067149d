import type { KubeConfig } from '@kubernetes/client-node';
import type { Kubeproof } from './index.js';

/** Returns a configuration of `@kubernetes/client-node` for a server: `config.makeApiClient(CoreV1Api)`. */
export function kubeConfig(server: Kubeproof): Promise<KubeConfig>;
