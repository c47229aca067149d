//! An operator and its tests: `cargo run --example operator` runs it against the cluster of the current kubeconfig,
//! `cargo test --example operator` tests it without any cluster.
//!
//! A `WebApp` becomes a Deployment, a Service and a ConfigMap, and its host an entry of the ConfigMap `dns`, which a
//! finalizer takes back.

mod operator;
#[cfg(test)]
mod tests;

use std::error::Error;

use kube::CustomResourceExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args()
        .nth(1)
        .is_some_and(|argument| argument == "crd")
    {
        println!("{:#}", serde_json::to_value(operator::WebApp::crd())?);
        return Ok(());
    }
    operator::run(kube::Client::try_default().await?).await;
    Ok(())
}
