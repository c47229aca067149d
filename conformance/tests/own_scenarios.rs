//! Scenarios as another crate has them, with a controller of its own.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams};

/// The period of the controller.
const PERIOD: Duration = Duration::from_secs(1);

kubeproof::scenarios!("tests/own/scenarios", "copier" => copy);

/// Copies the ConfigMap `a` as `a-copy`, once.
async fn copy(client: kube::Client) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    loop {
        if let Ok(Some(original)) = maps.get_opt("a").await {
            let copy = ConfigMap {
                metadata: ObjectMeta {
                    name: Some("a-copy".to_owned()),
                    ..ObjectMeta::default()
                },
                data: original.data,
                ..ConfigMap::default()
            };
            // The copy may exist already, from before a crash.
            let _ = maps.create(&PostParams::default(), &copy).await;
            return std::future::pending().await;
        }
        tokio::time::sleep(PERIOD).await;
    }
}
