// The helper for jest, with @kubernetes/client-node.
import { CoreV1Api } from '@kubernetes/client-node';
import { useKubeproof } from 'kubeproof/jest';

const current = useKubeproof({ controllers: 'namespace' });
const body = { metadata: { name: 'a' }, data: { key: 'value' } };

test.each([1, 2])('a namespace begins empty (%d)', async () => {
  const { kubeConfig, namespace } = current;
  const core = kubeConfig.makeApiClient(CoreV1Api);
  await core.createNamespacedConfigMap({ namespace, body });
  expect((await core.readNamespacedConfigMap({ namespace, name: 'a' })).data).toEqual({ key: 'value' });
});

test('a fault refuses', async () => {
  const { server, kubeConfig, namespace } = current;
  const fault = { name: 'full', on: { verb: 'create', resource: 'configmaps' }, refuse: { code: 507 } };
  const core = kubeConfig.makeApiClient(CoreV1Api);
  await server.control.withFault(fault, () =>
    expect(core.createNamespacedConfigMap({ namespace, body })).rejects.toMatchObject({ code: 507 }),
  );
  await core.createNamespacedConfigMap({ namespace, body });
});
