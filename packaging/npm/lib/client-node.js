'use strict';

async function kubeConfig(server) {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  config.loadFromFile(server.kubeconfig);
  // The client refuses plain HTTP, even to loopback, unless it is told not to verify certificates, of which there are none.
  config.clusters = config.clusters.map((cluster) =>
    cluster.server.startsWith('http:') ? { ...cluster, skipTLSVerify: true } : cluster,
  );
  return config;
}

module.exports = { kubeConfig };
