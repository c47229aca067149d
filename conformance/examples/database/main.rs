//! An operator with a planted bug, and its mended twin: `cargo run --example database -- planted|mended` runs one of them
//! against the cluster of the current kubeconfig, and `cargo run --example database -- crd` prints the definition.
//!
//! A `Database` becomes a StatefulSet and a Secret for each member, and a finalizer takes it out of the list of backups.
//! docs/operators.md shows how an exploration finds the bug.

mod operator;

use std::error::Error;

use kube::CustomResourceExt;
use operator::{Database, Surplus};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let surplus = match std::env::args().nth(1).as_deref() {
        Some("planted") => Surplus::OfThisChange,
        Some("mended") => Surplus::OfAnyChange,
        Some("crd") => {
            println!("{:#}", serde_json::to_value(Database::crd())?);
            return Ok(());
        }
        _ => return Err("expected planted, mended or crd".into()),
    };
    operator::run(kube::Client::try_default().await?, surplus).await;
    Ok(())
}
