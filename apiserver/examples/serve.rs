//! The API server alone on a loopback port: `cargo run -p kubeproof-apiserver --example serve -- 8080 [TOKEN]`.

use kubeproof_apiserver::{ApiServer, serve};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let port: u16 = std::env::args()
        .nth(1)
        .and_then(|port| port.parse().ok())
        .unwrap_or(0);
    let token = std::env::args().nth(2);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    serve(
        ApiServer::builder().token(token).build(),
        listener,
        std::future::pending(),
    )
    .await
}
