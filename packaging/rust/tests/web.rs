//! A Deployment on a simulated node, under virtual time.

use std::time::Duration;

use kubeproof::prelude::*;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:1.27'}]}
";

#[tokio::test(start_paused = true)]
async fn a_deployment_gets_ready() -> Result<(), Box<dyn std::error::Error>> {
    let testbed = Testbed::builder()
        .nodes(1)
        .controllers(["deployment", "replicaset"])
        .start()
        .await?;
    testbed.apply(WEB).await?;
    testbed.settle(Duration::from_secs(60)).await?;
    let timeline = testbed.timeline();
    assert!(
        timeline.contains("status.readyReplicas 1 → 2"),
        "{timeline}"
    );
    Ok(())
}
