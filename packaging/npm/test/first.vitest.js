// The first test of docs/install.md.
import { AppsV1Api } from '@kubernetes/client-node';
import { test } from 'kubeproof/vitest';
import { expect } from 'vitest';

const labels = { app: 'web' };
const containers = [{ name: 'web', image: 'nginx:1.27' }];
const template = { metadata: { labels }, spec: { containers } };
const web = { metadata: { name: 'web' }, spec: { replicas: 2, selector: { matchLabels: labels }, template } };

test('a deployment gets ready', async ({ kubeConfig, namespace }) => {
  const apps = kubeConfig.makeApiClient(AppsV1Api);
  await apps.createNamespacedDeployment({ namespace, body: web });
  const status = async () => (await apps.readNamespacedDeployment({ namespace, name: 'web' })).status;
  await expect.poll(status, { timeout: 30_000 }).toMatchObject({ readyReplicas: 2 });
});
