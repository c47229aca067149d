//! The forms in which keys of service accounts are written.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{TokenKeyError, TokenKeys};
use rcgen::{CertificateParams, KeyPair};

use super::{ACCOUNTS, ADMIN, ApiServer, SELF, send};

/// One RSA key in PKCS #8 and in PKCS #1.
const PKCS8: &str = include_str!("rsa.pem");
const PKCS1: &str = include_str!("pkcs1.pem");
/// A key on P-256 in SEC1, after its parameters.
const SEC1: &str = include_str!("sec1.pem");

/// The issuer that envtest sets.
const ISSUER: &str = "https://127.0.0.1:6443/";

fn server(signing: &str, verifying: &[String]) -> ApiServer {
    let verifying: Vec<Vec<u8>> = verifying.iter().map(|pem| pem.clone().into()).collect();
    let keys = TokenKeys::read(signing.as_bytes(), &verifying).unwrap();
    let builder = ApiServer::builder().token(Some("secret".to_owned()));
    let builder = builder.service_account_issuers(vec![ISSUER.to_owned()]);
    builder.service_account_keys(keys).build()
}

/// The algorithm and the issuer of a token that the server issues and accepts.
async fn round_trip(server: &ApiServer) -> (String, String) {
    let robot = json!({ "metadata": { "name": "robot" } });
    send(server, &format!("POST {ACCOUNTS}"), &[ADMIN], robot).await;
    let request = format!("POST {ACCOUNTS}/robot/token");
    let (code, issued) = send(server, &request, &[ADMIN], json!({})).await;
    assert_eq!(code, 201, "{issued}");
    let token = issued["status"]["token"].as_str().unwrap();
    // A fork has not seen the token.
    let bearer = format!("Bearer {token}");
    let bearer = [("authorization", bearer.as_str())];
    let (code, own) = send(&server.fork(), &format!("POST {SELF}"), &bearer, json!({})).await;
    assert_eq!(code, 201, "{own}");
    let name = &own["status"]["userInfo"]["username"];
    assert_eq!(name, "system:serviceaccount:default:robot");
    let part = |at: usize| -> Value {
        let part = URL_SAFE_NO_PAD.decode(token.split('.').nth(at).unwrap());
        serde_json::from_slice(&part.unwrap()).unwrap()
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&part(0)["alg"]), text(&part(1)["iss"]))
}

#[tokio::test]
async fn keys_are_read_in_every_form_that_go_reads() {
    let rsa = KeyPair::from_pem(PKCS8).unwrap();
    let certificate = |key: &KeyPair| {
        let params = CertificateParams::new(vec!["sa".to_owned()]).unwrap();
        params.self_signed(key).unwrap().pem()
    };
    let ec = KeyPair::generate().unwrap();
    let ec_pem = ec.serialize_pem();
    let unrelated = KeyPair::generate().unwrap();
    let both = format!("{}{}", unrelated.public_key_pem(), ec.public_key_pem());
    let rows = [
        (PKCS8, vec![], "RS256"),
        (PKCS1, vec![], "RS256"),
        (PKCS8, vec![PKCS1.to_owned()], "RS256"),
        (PKCS1, vec![rsa.public_key_pem()], "RS256"),
        (PKCS1, vec![certificate(&rsa)], "RS256"),
        (SEC1, vec![], "ES256"),
        (SEC1, vec![SEC1.to_owned()], "ES256"),
        (&ec_pem, vec![certificate(&ec)], "ES256"),
        (&ec_pem, vec![both], "ES256"),
        (
            &ec_pem,
            vec![rsa.public_key_pem(), certificate(&ec)],
            "ES256",
        ),
    ];
    for (signing, verifying, algorithm) in rows {
        let (alg, issuer) = round_trip(&server(signing, &verifying)).await;
        assert_eq!((alg.as_str(), issuer.as_str()), (algorithm, ISSUER));
    }
}

#[test]
fn a_text_without_keys_is_refused_in_upstream_s_words() {
    let certificate = CertificateParams::new(vec!["sa".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = certificate.self_signed(&key).unwrap().pem();
    let public = key.public_key_pem();
    for signing in ["", "x", &certificate, &public] {
        let refused = TokenKeys::read(signing.as_bytes(), &[]).unwrap_err();
        assert_eq!(refused, TokenKeyError::Missing("private"));
        let text = "data does not contain a valid RSA or ECDSA private key";
        assert_eq!(refused.to_string(), text);
    }
    // A public key in PKCS #1 is one that Go does not read, either.
    let der = PKCS1.lines().filter(|line| !line.starts_with('-'));
    let body: String = der.take(4).collect();
    let pkcs1 = format!("-----BEGIN RSA PUBLIC KEY-----\n{body}\n-----END RSA PUBLIC KEY-----\n");
    for verifying in ["", "x", &pkcs1] {
        let refused = TokenKeys::read(PKCS8.as_bytes(), &[verifying.into()]).unwrap_err();
        assert_eq!(refused, TokenKeyError::Missing("public"));
        let text = "data does not contain any valid RSA or ECDSA public keys";
        assert_eq!(refused.to_string(), text);
    }
}
