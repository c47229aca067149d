//! The serving certificate: from the files that the flags name, or made and written into the certificate directory.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kubeproof_apiserver::{ServingCertificate, Tls};

use crate::cli::flags::service_ranges;
use crate::cli::out;
use crate::cli::pflag::Parsed;
use crate::cli::serve::kubeconfig::write_private;

/// The name of the pair of files, in the certificate directory, that upstream writes and reads.
const PAIR: &str = "apiserver";

/// The certificate that the server shows, with its chain in PEM.
pub(super) struct Certificate {
    serving: ServingCertificate,
    chain_pem: Vec<u8>,
}

impl Certificate {
    pub(super) fn chain_pem(&self) -> &[u8] {
        &self.chain_pem
    }
}

impl From<Certificate> for ServingCertificate {
    fn from(certificate: Certificate) -> Self {
        certificate.serving
    }
}

/// The certificate for a server that listens on `address`.
pub(super) fn certificate(parsed: &Parsed, address: IpAddr) -> anyhow::Result<Certificate> {
    let named = |flag: &str| parsed.text(flag).map(PathBuf::from);
    let dir = named("cert-dir");
    let pair = match (named("tls-cert-file"), named("tls-private-key-file")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        _ => dir.as_deref().map(|dir| {
            let file = |extension: &str| dir.join(PAIR).with_extension(extension);
            (file("crt"), file("key"))
        }),
    };
    let are_named = parsed.is_set("tls-cert-file");
    let certificate = match &pair {
        Some((certificate, key)) if are_named || (certificate.exists() && key.exists()) => {
            read(certificate, key)?
        }
        _ => made(parsed, address, pair.as_ref())?,
    };
    match parsed.text("tls-min-version") {
        Some("VersionTLS13") => Ok(Certificate {
            serving: certificate.serving.only_tls13(),
            ..certificate
        }),
        _ => Ok(certificate),
    }
}

fn read(certificate: &Path, key: &Path) -> anyhow::Result<Certificate> {
    let text = |path: &Path| fs::read(path).with_context(|| format!("open {}", path.display()));
    let (chain, key) = (text(certificate)?, text(key)?);
    Ok(Certificate {
        serving: ServingCertificate::read(&chain, &key)?,
        chain_pem: chain,
    })
}

/// Makes a certificate, and writes it where the next start finds it.
fn made(
    parsed: &Parsed,
    address: IpAddr,
    pair: Option<&(PathBuf, PathBuf)>,
) -> anyhow::Result<Certificate> {
    let advertised = parsed.text("advertise-address");
    let advertised = advertised.and_then(|text| text.parse().ok());
    let (ranges, _) = service_ranges(parsed);
    let tls = Tls::generate_for(advertised.unwrap_or(address), &ranges);
    let (certificate, key) = tls.serving_pem();
    let chain = format!("{certificate}{}", tls.authority_pem());
    if let Some((certificate_path, key_path)) = pair {
        let write = || -> std::io::Result<()> {
            if let Some(dir) = certificate_path.parent() {
                fs::create_dir_all(dir)?;
            }
            fs::write(certificate_path, &chain)?;
            write_private(key_path, key)
        };
        write().context("unable to create self-signed cert")?;
        out::note(&format!(
            "Generated self-signed cert ({}, {})",
            certificate_path.display(),
            key_path.display()
        ));
    }
    Ok(Certificate {
        serving: tls.into(),
        chain_pem: chain.into_bytes(),
    })
}
