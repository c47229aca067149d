// A user's program, which is only checked: it names everything that the declarations export.
import { CoreV1Api } from '@kubernetes/client-node';
import { Control, ControlError, Kubeproof, StartError, findProgram, type Fault, type ImportResult, type MetricValue, type Options } from 'kubeproof';
import { kubeConfig } from 'kubeproof/client-node';
import { useKubeproof, type Current } from 'kubeproof/jest';
import { kubeproofTest, test, type Fixtures } from 'kubeproof/vitest';

const options: Options = { nodes: 1, controllers: 'all', load: ['config/crd'], pace: 'fast' };
const fault: Fault = { name: 'busy', on: { verb: 'create', resource: 'pods' }, times: 1, refuse: { code: 429 } };
// @ts-expect-error a pace that does not exist
const wrong: Options = { pace: 'slow' };

export async function program(): Promise<string> {
  await using server = await Kubeproof.start(options);
  const control: Control = server.control;
  const names: string[] = (await control.faults()).map(({ name }) => name);
  const count: number = await control.withFault(fault, () => names.length);
  const imported: ImportResult = await control.importObjects([{ kind: 'ConfigMap' }], { replace: true });
  const queued: MetricValue = { name: 'queue_length', value: '30' };
  await control.putMetric(queued);
  const core: CoreV1Api = (await kubeConfig(server)).makeApiClient(CoreV1Api);
  await core.listNode();
  return `${findProgram()} ${count} ${imported.stored} ${server.pid} ${wrong.pace}`;
}

export function code(error: unknown): number | undefined {
  if (error instanceof StartError) return undefined;
  return error instanceof ControlError ? error.code : undefined;
}

test('fixtures', async ({ kubeproof, kubeConfig, namespace }) => {
  const seen: Pick<Fixtures, 'namespace'> = { namespace };
  await kubeproof.control.jump('10m');
  await kubeproof.control.advance('10h');
  kubeConfig.makeApiClient(CoreV1Api);
  void seen;
});
kubeproofTest(options)('options', ({ server }) => void server.url);
export const current: Current = useKubeproof(options);
