//! etcd, as far as a harness waits for it. The state is in kube-apiserver; nothing is stored here.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, anyhow, ensure};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::Full;
use kubeproof_apiserver::{ServingCertificate, serve_requests};
use kubeproof_machinery::json::json;
use tokio::net::TcpListener;

use crate::cli::flags::etcd as flags;
use crate::cli::out;
use crate::cli::parent::{self, Parent};
use crate::cli::pflag::Parsed;

/// The reason why a client of etcd itself gets nothing.
const STATELESS: &str = "kubeproof's etcd holds no state: the objects are in kube-apiserver's memory, so programs that talk \
     to etcd itself, such as aggregated API servers, do not work with it";

pub(super) fn run() -> ExitCode {
    let parsed = match super::values_to_serve(flags::read(std::env::args().skip(1))) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    match serve(&parsed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::note(&format!("etcd: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Serves the URLs for clients until a signal or the end of the parent.
fn serve(parsed: &Parsed) -> anyhow::Result<()> {
    if let Some(warning) = parsed.warning() {
        out::note(&format!("etcd: {warning}"));
    }
    let urls = parsed.all("listen-client-urls");
    let metrics = parsed.all("listen-metrics-urls");
    let certificate = certificate(parsed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stop = parent::stop(Parent::find())?;
        let has_spoken = Arc::new(AtomicBool::new(false));
        let mut listeners = Vec::new();
        for url in urls.iter().chain(&metrics).filter(|url| !url.is_empty()) {
            let (is_tls, address) = address(url).await?;
            ensure!(
                !is_tls || certificate.is_some(),
                "{url} needs --cert-file and --key-file"
            );
            let listener = TcpListener::bind(address).await;
            let listener = listener.with_context(|| format!("cannot listen on {url}"))?;
            let acceptor = certificate.as_ref().filter(|_| is_tls);
            let acceptor = acceptor.map(ServingCertificate::acceptor);
            let has_spoken = Arc::clone(&has_spoken);
            let answer = move |request: http::Request<_>| {
                let (path, headers) = (request.uri().path(), request.headers());
                let response = respond(request.method(), path, headers);
                if !is_probe(path) && !has_spoken.swap(true, Ordering::Relaxed) {
                    out::note(STATELESS);
                }
                std::future::ready(response)
            };
            let never = std::future::pending();
            listeners.push(tokio::spawn(serve_requests(
                listener, acceptor, never, answer,
            )));
        }
        stop.await;
        Ok(())
    })
}

fn certificate(parsed: &Parsed) -> anyhow::Result<Option<ServingCertificate>> {
    let (Some(certificate), Some(key)) = (parsed.text("cert-file"), parsed.text("key-file")) else {
        return Ok(None);
    };
    let read = |path: &str| std::fs::read(path).with_context(|| format!("open {path}"));
    Ok(Some(ServingCertificate::read(
        &read(certificate)?,
        &read(key)?,
    )?))
}

/// The address in a URL, and whether its scheme is `https`.
async fn address(url: &str) -> anyhow::Result<(bool, SocketAddr)> {
    let parts = url.split_once("://");
    let (scheme, host) = parts.ok_or_else(|| anyhow!("{url} is not a URL"))?;
    let is_tls = match scheme {
        "http" => false,
        "https" => true,
        _ => return Err(anyhow!("{url}: expected http or https")),
    };
    let resolved = tokio::net::lookup_host(host.trim_end_matches('/')).await;
    let mut addresses = resolved.with_context(|| format!("cannot resolve {url}"))?;
    let address = addresses.next();
    Ok((
        is_tls,
        address.with_context(|| format!("{url} has no address"))?,
    ))
}

/// Whether a harness asks for `path` to learn that etcd runs.
fn is_probe(path: &str) -> bool {
    matches!(
        path,
        "/health" | "/version" | "/readyz" | "/livez" | "/metrics"
    )
}

fn respond(method: &Method, path: &str, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    if content_type.is_some_and(|own| own.starts_with("application/grpc")) {
        // UNIMPLEMENTED, as gRPC's trailers say it.
        let mut response = Response::new(Full::default());
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            http::HeaderValue::from_static("application/grpc"),
        );
        headers.insert("grpc-status", http::HeaderValue::from_static("12"));
        headers.insert("grpc-message", http::HeaderValue::from_static(STATELESS));
        return response;
    }
    let (status, body) = match (method, path) {
        (&Method::GET, "/health") => (
            StatusCode::OK,
            r#"{"health":"true","reason":""}"#.to_owned(),
        ),
        (&Method::GET, "/version") => {
            let version = flags::VERSION;
            let own = json!({"etcdserver": version, "etcdcluster": version, "storage": version});
            (StatusCode::OK, own.to_string())
        }
        (&Method::GET, "/readyz" | "/livez") => (StatusCode::OK, "ok\n".to_owned()),
        (&Method::GET, "/metrics") => (StatusCode::OK, String::new()),
        _ => (StatusCode::NOT_FOUND, format!("{STATELESS}\n")),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response
}
