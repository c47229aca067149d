//! Clients that show a certificate.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubeproof_apiserver::{ApiServer, Tls};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::{Running, generated, start_server};

/// An authority, and a certificate of version 1 that it has issued, with its key.
const AUTHORITY: &str = include_str!("authority.pem");
const VERSION_1: &str = include_str!("version_1.pem");

/// A server that asks for credentials and knows the clients of `tls` and of [`AUTHORITY`].
async fn start(tls: Tls) -> Running {
    let authorities = format!("{}\n{AUTHORITY}", tls.authority_pem());
    let builder = ApiServer::builder().token(Some("secret".to_owned()));
    let builder = builder.client_authorities(authorities.as_bytes()).unwrap();
    start_server(builder.build(), tls).await
}

/// A client's certificate and key in one PEM text.
fn client(tls: &Tls, user: &str, groups: &[&str]) -> String {
    let client = tls.client_certificate(user, groups);
    client.certificate_pem + &client.key_pem
}

/// Sends requests on one connection of HTTP/2 and answers their codes and bodies.
async fn exchange(
    running: &Running,
    authority: &str,
    shown: Option<&str>,
    bearers: &[Option<&str>],
) -> Vec<(u16, Value)> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some(pem) => {
            let chain = CertificateDer::pem_slice_iter(pem.as_bytes());
            let chain = chain.map(Result::unwrap).collect();
            let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
            let key = crypto::ring::sign::any_supported_type(&key).unwrap();
            // The client would not send one of version 1 if it looked at it.
            let shown = SingleCertAndKey::from(CertifiedKey::new(chain, key));
            config.with_client_cert_resolver(Arc::new(shown))
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let mut answers = Vec::new();
    for bearer in bearers {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let mut request = Request::post(format!("https://localhost{path}"))
            .header("content-type", "application/json");
        if let Some(bearer) = bearer {
            request = request.header("authorization", format!("Bearer {bearer}"));
        }
        let request = request.body(Full::<Bytes>::from("{}")).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        answers.push((code, serde_json::from_slice(&body).unwrap()));
    }
    drop(sender);
    drop(connection.await);
    answers
}

fn info(answer: &(u16, Value)) -> &Value {
    assert_eq!(answer.0, 201, "{}", answer.1);
    &answer.1["status"]["userInfo"]
}

#[tokio::test]
async fn the_subject_of_a_certificate_is_the_user_of_every_request_on_its_connection() {
    let tls = generated();
    let authority = tls.authority_pem().to_owned();
    let jane = client(&tls, "jane", &["devs"]);
    let running = start(tls).await;
    // A token on the way, even a wrong one, does not matter to who has shown a certificate.
    let bearers = [None, Some("secret"), Some("wrong")];
    let answers = exchange(&running, &authority, Some(&jane), &bearers).await;
    for answer in &answers {
        let info = info(answer);
        assert_eq!(info["username"], "jane");
        assert_eq!(info["groups"], json!(["devs", "system:authenticated"]));
        let id = &info["extra"]["authentication.kubernetes.io/credential-id"][0];
        let digest = id.as_str().unwrap().strip_prefix("X509SHA256=").unwrap();
        assert_eq!(digest.len(), 64);
    }
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stranger_s_certificate_is_refused_after_the_handshake() {
    let tls = generated();
    let authority = tls.authority_pem().to_owned();
    let nameless = client(&tls, "", &["devs"]);
    let running = start(tls).await;
    let stranger = client(&generated(), "jane", &["system:masters"]);
    let bearers = [None, Some("wrong"), Some("secret")];
    let answers = exchange(&running, &authority, Some(&stranger), &bearers).await;
    assert_eq!((answers[0].0, answers[1].0), (401, 401));
    assert_eq!(info(&answers[2])["username"], "kubernetes-admin");
    // A client without a certificate, or with a certificate without a name, is anonymous.
    for shown in [None, Some(nameless.as_str())] {
        let answers = exchange(&running, &authority, shown, &[None]).await;
        assert_eq!(answers[0].0, 403);
    }
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_certificate_of_version_1_is_known_too() {
    let tls = generated();
    let authority = tls.authority_pem().to_owned();
    let running = start(tls).await;
    let answers = exchange(&running, &authority, Some(VERSION_1), &[None]).await;
    assert_eq!(info(&answers[0])["username"], "jane");
    let groups = json!(["devs", "ops", "system:authenticated"]);
    assert_eq!(info(&answers[0])["groups"], groups);
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_certificate_for_servers_is_none_of_a_client() {
    let tls = generated();
    let authority = tls.authority_pem().to_owned();
    let issuer_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = rcgen::CertifiedIssuer::self_signed(params, issuer_key).unwrap();
    let builder = ApiServer::builder().token(Some("secret".to_owned()));
    let builder = builder.client_authorities(issuer.pem().as_bytes()).unwrap();
    let running = start_server(builder.build(), tls).await;
    for (usage, want) in [
        (rcgen::ExtendedKeyUsagePurpose::ServerAuth, 401),
        (rcgen::ExtendedKeyUsagePurpose::ClientAuth, 201),
    ] {
        let mut params = rcgen::CertificateParams::default();
        params.extended_key_usages = vec![usage];
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "jane");
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let shown = certificate.pem() + &key.serialize_pem();
        let answers = exchange(&running, &authority, Some(&shown), &[None]).await;
        assert_eq!(answers[0].0, want, "{}", answers[0].1);
    }
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[test]
fn a_text_without_certificates_is_no_authority() {
    for text in ["", "x"] {
        let refused = ApiServer::builder().client_authorities(text.as_bytes());
        assert!(refused.is_err(), "{text:?}");
    }
}
