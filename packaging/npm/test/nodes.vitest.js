// The fixtures of vitest, with @kubernetes/client-node.
import { AppsV1Api, CoreV1Api, KubernetesObjectApi, Watch } from '@kubernetes/client-node';
import { test } from 'kubeproof/vitest';
import { expect } from 'vitest';

const labels = { app: 'web' };
const deployment = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web' },
  spec: {
    replicas: 2,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'nginx' }] } },
  },
};
const configMap = { metadata: { name: 'a' }, data: { key: 'value' } };
const refusal = { on: { verb: 'create', resource: 'configmaps' }, refuse: { code: 429, reason: 'TooManyRequests' } };

test('a deployment gets its pods', async ({ kubeConfig, namespace }) => {
  const apps = kubeConfig.makeApiClient(AppsV1Api);
  await apps.createNamespacedDeployment({ namespace, body: deployment });
  await expect
    .poll(async () => (await apps.readNamespacedDeployment({ namespace, name: 'web' })).status.readyReplicas, {
      timeout: 30_000,
    })
    .toBe(2);
  const pods = await kubeConfig.makeApiClient(CoreV1Api).listNamespacedPod({ namespace });
  expect(pods.items.map((pod) => pod.spec.nodeName)).toEqual(['node-1', 'node-1']);
});

test('a watch has the events', async ({ kubeConfig, namespace }) => {
  const core = kubeConfig.makeApiClient(CoreV1Api);
  const seen = await new Promise((resolve, reject) => {
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    const event = (type, object) => object.metadata.name === 'a' && resolve([type, object.data, watch]);
    const watch = new Watch(kubeConfig).watch(path, {}, event, (error) => error && reject(error));
    watch.then(() => core.createNamespacedConfigMap({ namespace, body: configMap })).catch(reject);
  });
  (await seen.pop()).abort();
  expect(seen).toEqual(['ADDED', { key: 'value' }]);
});

test('objects of any kind are applied', async ({ kubeConfig, namespace }) => {
  const objects = KubernetesObjectApi.makeApiClient(kubeConfig);
  const made = await objects.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'b', namespace } });
  expect(made.metadata.namespace).toBe(namespace);
});

test('a fault refuses as often as it says', async ({ kubeproof, kubeConfig, namespace }) => {
  const core = kubeConfig.makeApiClient(CoreV1Api);
  await kubeproof.control.inject({ name: 'once', times: 1, ...refusal });
  await expect(core.createNamespacedConfigMap({ namespace, body: configMap })).rejects.toMatchObject({ code: 429 });
  await core.createNamespacedConfigMap({ namespace, body: configMap });
  await kubeproof.control.inject({ name: 'left', ...refusal });
});

test('a fault that a test left is lifted', async ({ kubeproof, kubeConfig, namespace }) => {
  expect((await kubeproof.control.faults()).map(({ name }) => name)).toContain('left');
  await kubeConfig.makeApiClient(CoreV1Api).createNamespacedConfigMap({ namespace, body: configMap });
});
