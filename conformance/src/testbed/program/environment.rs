//! What programs find in their environment: the sockets of the server, the files that describe it, and the variables
//! that name both.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use kubeproof_apiserver::{ApiServer, Tls};

use super::account::{Account, AccountName};
use super::requests::Requests;
use super::{ExternalPrograms, ServedService};
use crate::testbed::TestbedError;
use crate::testbed::socket::{ClusterAccess, Listening, RunDirectory};

/// The variables of one program.
pub(super) type Variables = BTreeMap<&'static str, OsString>;

/// The variables, with the names in braces that stand for them in commands.
const NAMES: [(&str, &str); 8] = [
    ("url", "KUBEPROOF_URL"),
    ("kubeconfig", "KUBECONFIG"),
    ("namespace", "KUBEPROOF_NAMESPACE"),
    ("ca", "KUBEPROOF_CA"),
    ("token", "KUBEPROOF_TOKEN"),
    ("service-account", "KUBEPROOF_SERVICE_ACCOUNT"),
    ("webhook-port", "KUBEPROOF_WEBHOOK_PORT"),
    ("webhook-certs", "KUBEPROOF_WEBHOOK_CERTS"),
];

/// The directory of a service account, as seen from the root of a pod.
const MOUNTED: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// Returns `command` with the values of the names in braces. Other braces stay.
pub(super) fn filled(command: &str, variables: &Variables) -> OsString {
    let mut filled = command.to_owned();
    for (name, variable) in NAMES {
        if let Some(value) = variables.get(variable) {
            filled = filled.replace(&format!("{{{name}}}"), &value.to_string_lossy());
        }
    }
    filled.into()
}

/// What exists before the server does: an authority of certificates, the ports of webhooks, and a place for requests.
pub(in crate::testbed) struct Reserved {
    tls: Tls,
    /// The port for the webhooks of each program.
    ports: Vec<u16>,
    requests: Requests,
}

impl Reserved {
    /// Reserves a port for each of `programs`.
    ///
    /// # Errors
    /// When there is no port, or the log of requests cannot be opened.
    pub(super) fn of(programs: &ExternalPrograms) -> io::Result<Self> {
        // Open until all are known, so that no two are the same.
        let sockets = programs.commands.iter();
        let sockets = sockets.map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
        let ports = sockets.iter();
        let ports = ports.map(|socket| Ok(socket.local_addr()?.port()));
        let mut ports = ports.collect::<io::Result<Vec<_>>>()?;
        // One after the other the programs serve the same webhooks.
        if let (Some(_), Some(first)) = (programs.first, ports.first().copied()) {
            ports.fill(first);
        }
        Ok(Self {
            tls: Tls::generate(Ipv4Addr::LOCALHOST.into()),
            ports,
            requests: Requests::into_log(programs.audit_log.as_deref())?,
        })
    }

    pub(super) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The certificate of the authority, in PEM.
    pub(super) fn authority(&self) -> &str {
        self.tls.authority_pem()
    }

    /// The address at which the webhooks of a program are called.
    ///
    /// # Errors
    /// When there is no such program.
    pub(super) fn webhook_address(&self, program: usize) -> io::Result<SocketAddr> {
        let port = self.ports.get(program).ok_or_else(|| {
            let words = format!("there is no program {} to serve webhooks", program + 1);
            io::Error::new(io::ErrorKind::InvalidInput, words)
        })?;
        Ok((Ipv4Addr::LOCALHOST, *port).into())
    }
}

/// The sockets and files for the programs of a run.
pub(super) struct Environment {
    /// Without credentials; `None` where programs have to show who they are.
    plain: Option<Listening>,
    encrypted: Listening,
    directory: RunDirectory,
    reserved: Reserved,
    namespace: String,
    account: Option<AccountName>,
    services: Vec<ServedService>,
    /// Whether one program runs at a time, so that all have one port for webhooks.
    takes_turns: bool,
}

impl Environment {
    /// Opens the sockets; one is without credentials unless the programs have an account, or the server `asks` for credentials.
    /// Needs a runtime with I/O.
    ///
    /// # Errors
    /// When a socket or the directory cannot be created.
    pub(super) async fn open(
        programs: &ExternalPrograms,
        reserved: Reserved,
        (server, asks): (&ApiServer, bool),
        namespace: &str,
    ) -> io::Result<Self> {
        let plain = match asks || programs.account.is_some() {
            false => Some(Listening::plain(server).await?),
            true => None,
        };
        Ok(Self {
            plain,
            encrypted: Listening::encrypted(server, &reserved.tls).await?,
            directory: RunDirectory::make()?,
            reserved,
            namespace: namespace.to_owned(),
            account: programs.account.clone(),
            services: programs.services.clone(),
            takes_turns: programs.first.is_some(),
        })
    }

    pub(super) fn requests(&self) -> &Requests {
        &self.reserved.requests
    }

    /// The ports of the sockets.
    pub(super) fn ports(&self) -> Vec<u16> {
        let sockets = self.plain.iter().chain([&self.encrypted]);
        sockets.map(|socket| socket.address().port()).collect()
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the service account of the programs, with a token.
    ///
    /// # Errors
    /// [`TestbedError::Account`] when it does not exist.
    pub(super) async fn account(&self, client: &kube::Client) -> Result<Account, TestbedError> {
        Account::get(self.account.as_ref(), &self.namespace, client).await
    }

    /// Writes the files, and returns the variables of each program.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn variables(&self, account: &Account) -> io::Result<Vec<Variables>> {
        let authority = self.reserved.authority();
        let encrypted = self.encrypted.address();
        let url = match &self.plain {
            Some(plain) => format!("http://{}", plain.address()),
            None => format!("https://{encrypted}"),
        };
        let credentials = self.plain.is_none().then_some((authority, &*account.token));
        self.directory.write_kubeconfig(&ClusterAccess {
            url: &url,
            namespace: &self.namespace,
            credentials,
        })?;
        // As kubelets mount it into pods, so that the beginning of the path is a root for clients.
        let mounted = self.directory().join(MOUNTED);
        std::fs::create_dir_all(&mounted)?;
        std::fs::write(mounted.join("token"), &account.token)?;
        std::fs::write(mounted.join("ca.crt"), authority)?;
        std::fs::write(mounted.join("namespace"), &account.namespace)?;
        let common: [(&'static str, OsString); 8] = [
            ("KUBECONFIG", self.directory.kubeconfig().into()),
            ("KUBEPROOF_URL", url.into()),
            ("KUBEPROOF_NAMESPACE", self.namespace.clone().into()),
            ("KUBEPROOF_CA", mounted.join("ca.crt").into()),
            ("KUBEPROOF_TOKEN", account.token.clone().into()),
            ("KUBEPROOF_SERVICE_ACCOUNT", mounted.into()),
            ("KUBERNETES_SERVICE_HOST", encrypted.ip().to_string().into()),
            (
                "KUBERNETES_SERVICE_PORT",
                encrypted.port().to_string().into(),
            ),
        ];
        let ports = self.reserved.ports.iter().enumerate();
        let each = ports.map(|(index, port)| {
            let mut variables = Variables::from(common.clone());
            let certs = self.webhook_certs(index)?;
            variables.insert("KUBEPROOF_WEBHOOK_PORT", port.to_string().into());
            variables.insert("KUBEPROOF_WEBHOOK_CERTS", certs.into());
            Ok(variables)
        });
        each.collect()
    }

    /// Writes the certificate of the program's webhooks, in the form of a Secret of type `kubernetes.io/tls`; returns
    /// its directory. Without a service it is for loopback.
    fn webhook_certs(&self, program: usize) -> io::Result<PathBuf> {
        let directory = self.directory().join(format!("webhook-{}", program + 1));
        std::fs::create_dir_all(&directory)?;
        let own = self
            .services
            .iter()
            .filter(|service| self.takes_turns || service.program == program);
        let mut hosts: Vec<String> = own
            .map(|service| format!("{}.{}.svc", service.name, service.namespace))
            .collect();
        if hosts.is_empty() {
            hosts.push(Ipv4Addr::LOCALHOST.to_string());
        }
        let issued = self.reserved.tls.server_certificate(&hosts);
        let (certificate, key) = issued.ok_or_else(|| {
            let words = format!("no certificate can be for {}", hosts.join(", "));
            io::Error::new(io::ErrorKind::InvalidInput, words)
        })?;
        std::fs::write(directory.join("tls.crt"), certificate)?;
        std::fs::write(directory.join("tls.key"), key)?;
        std::fs::write(directory.join("ca.crt"), self.reserved.authority())?;
        Ok(directory)
    }

    /// Closes the sockets.
    pub(super) async fn close(self) {
        if let Some(plain) = self.plain {
            plain.close().await;
        }
        self.encrypted.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_braces_are_replaced_and_other_braces_stay() {
        let variables = Variables::from([
            ("KUBEPROOF_URL", "http://127.0.0.1:1".into()),
            ("KUBEPROOF_WEBHOOK_PORT", "2".into()),
        ]);
        let command = "m --api={url} --port={webhook-port} --json='{\"a\": {b}}' ${HOME} {token}";
        assert_eq!(
            filled(command, &variables),
            "m --api=http://127.0.0.1:1 --port=2 --json='{\"a\": {b}}' ${HOME} {token}"
        );
    }
}
