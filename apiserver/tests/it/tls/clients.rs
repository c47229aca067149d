//! Clients that show a certificate.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, RequestHeaders, Tls};
use sha2::Digest;
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
    let bearers: Vec<_> = bearers
        .iter()
        .map(|bearer| {
            let bearer = bearer.map(|bearer| ("authorization", format!("Bearer {bearer}")));
            bearer.into_iter().collect()
        })
        .collect();
    exchange_with(running, authority, shown, &bearers).await
}

/// Sends requests with headers.
async fn exchange_with(
    running: &Running,
    authority: &str,
    shown: Option<&str>,
    requests: &[Vec<(&str, String)>],
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
    for headers in requests {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let mut request = Request::post(format!("https://localhost{path}"))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
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

#[tokio::test]
async fn a_certificate_that_is_itself_the_authority_names_a_user() {
    let tls = generated();
    let authority = tls.authority_pem().to_owned();
    // As fabric8's kube-api-test makes it: version 3, without constraints or usages.
    let mut params = rcgen::CertificateParams::default();
    let name = &mut params.distinguished_name;
    name.push(rcgen::DnType::CommonName, "kubernetes-admin");
    name.push(rcgen::DnType::OrganizationName, "system:masters");
    let key = rcgen::KeyPair::generate().unwrap();
    let own = params.self_signed(&key).unwrap();
    let builder = ApiServer::builder().ask_for_credentials();
    let builder = builder.client_authorities(own.pem().as_bytes()).unwrap();
    let running = start_server(builder.build(), tls).await;
    let shown = own.pem() + &key.serialize_pem();
    let answers = exchange(&running, &authority, Some(&shown), &[None]).await;
    let info = info(&answers[0]);
    assert_eq!(info["username"], "kubernetes-admin");
    let digest = sha2::Sha256::digest(own.der());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        info["extra"]["authentication.kubernetes.io/credential-id"],
        json!([format!("X509SHA256={digest}")])
    );
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_proxy_names_the_user_in_headers_and_nobody_else_does() {
    let (tls, proxies) = (generated(), generated());
    let authority = tls.authority_pem().to_owned();
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let headers = RequestHeaders {
        allowed_names: own(&["front-proxy"]),
        username_headers: own(&["X-Remote-User", "X-User"]),
        uid_headers: own(&["X-Remote-Uid"]),
        group_headers: own(&["X-Remote-Group"]),
        extra_header_prefixes: own(&["X-Remote-Extra-"]),
    };
    let jane = client(&tls, "jane", &["devs"]);
    let builder = ApiServer::builder().ask_for_credentials();
    let builder = builder.client_authorities(authority.as_bytes()).unwrap();
    let pem = proxies.authority_pem().as_bytes();
    let running = start_server(builder.request_headers(pem, headers).unwrap().build(), tls).await;
    let named = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect()
    };
    let bob = named(&[
        ("x-user", "bob"),
        ("x-remote-uid", "u1"),
        ("x-remote-group", "a"),
        ("x-remote-group", "b"),
        ("x-remote-extra-example.com%2Fscope", "one"),
        ("x-remote-extra-example.com%2Fscope", "two"),
    ]);
    let proxy = client(&proxies, "front-proxy", &["ignored"]);
    let answers = exchange_with(&running, &authority, Some(&proxy), &[bob.clone(), vec![]]).await;
    let want = json!({
        "username": "bob",
        "uid": "u1",
        "groups": ["a", "b", "system:authenticated"],
        "extra": { "example.com/scope": ["one", "two"] },
    });
    assert_eq!(info(&answers[0]), &want);
    // Without headers its certificate is one of an unknown authority.
    assert_eq!(answers[1].0, 401);
    let stranger = client(&proxies, "other", &[]);
    let answers = exchange_with(
        &running,
        &authority,
        Some(&stranger),
        std::slice::from_ref(&bob),
    )
    .await;
    assert_eq!(answers[0].0, 401);
    // The headers of other clients mean nothing.
    let answers = exchange_with(
        &running,
        &authority,
        Some(&jane),
        std::slice::from_ref(&bob),
    )
    .await;
    assert_eq!(info(&answers[0])["username"], "jane");
    let answers = exchange_with(&running, &authority, None, &[bob]).await;
    assert_eq!(answers[0].0, 403);
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}
