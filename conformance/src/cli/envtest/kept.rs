//! A control plane that outlives its test, to be looked at with kubectl.
//!
//! The harness sees a program that ends when it is stopped. That program is only the launcher of the server, which runs
//! in a session of its own.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use kubeproof_machinery::json::json;

use super::layout;
use crate::cli::out;
use crate::cli::parent::{self, Parent};
use crate::cli::serve::kubeconfig::write_private;

/// Has the path of the kubeconfig to be written, in a server that was started by a launcher.
const KUBECONFIG: &str = "KUBEPROOF_OWN_KUBECONFIG";

/// The period of looking whether the server has ended.
const PERIOD: Duration = Duration::from_millis(50);

/// The server that a launcher has started.
pub(super) struct Kept {
    kubeconfig: PathBuf,
    /// The administrator's token.
    token: String,
}

/// Starts the server in a session of its own, and waits for the harness to stop it; then leaves it running.
pub(super) fn start() -> anyhow::Result<ExitCode> {
    let dir = layout::cache_dir()?.join("kept");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot write {}", dir.display()))?;
    let file = |extension: &str| dir.join(format!("{}.{extension}", std::process::id()));
    let (kubeconfig, log) = (file("kubeconfig"), file("log"));
    // A kubeconfig of an earlier process with this number would be taken for this one's.
    let _ = std::fs::remove_file(&kubeconfig);
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut server = Command::new(std::env::current_exe()?);
    // The harness waits until its pipes are closed.
    server
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .args(std::env::args_os().skip(1))
        .env(KUBECONFIG, &kubeconfig);
    let mut server = server.spawn().context("cannot start the server")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended: Option<ExitStatus> = runtime.block_on(async {
        let stop = parent::stop(Parent::find())?;
        let mut stop = std::pin::pin!(stop);
        loop {
            if let Some(status) = server.try_wait()? {
                return anyhow::Ok(Some(status));
            }
            tokio::select! {
                () = &mut stop => return Ok(None),
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    })?;
    if let Some(status) = ended {
        // The harness gets the server's last words.
        out::note(std::fs::read_to_string(&log)?.trim_end());
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
    }
    let notice = notice(&kubeconfig, &log, server.id());
    out::note(&notice);
    // Harnesses discard the output of their programs; a person at a terminal sees this.
    if let Ok(mut terminal) = File::options().write(true).open("/dev/tty") {
        let _ = writeln!(terminal, "{notice}");
    }
    Ok(ExitCode::SUCCESS)
}

/// How to look at a server that was kept, and how to end it.
fn notice(kubeconfig: &Path, log: &Path, pid: u32) -> String {
    format!(
        "kubeproof: the control plane of the test is kept:\n  \
         kubectl --kubeconfig {} get all -A\n  \
         its log is in {}\n  \
         kill {pid} ends it",
        kubeconfig.display(),
        log.display()
    )
}

impl Kept {
    /// The server that this process is, if a launcher has started it. The process then gets a session of its own.
    pub(super) fn of_environment() -> anyhow::Result<Option<Self>> {
        let Some(kubeconfig) = std::env::var_os(KUBECONFIG).map(PathBuf::from) else {
            return Ok(None);
        };
        // Signals to the group of the launcher are not for the server.
        let _ = rustix::process::setsid();
        let mut random = [0; 32];
        getrandom::fill(&mut random).context("the machine gives no randomness")?;
        Ok(Some(Self {
            kubeconfig,
            token: URL_SAFE_NO_PAD.encode(random),
        }))
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Writes the administrator's kubeconfig for the server at `url`, whose certificate is known.
    pub(super) fn write_kubeconfig(&self, url: &str, certificate: &[u8]) -> anyhow::Result<()> {
        // The authority's key is the harness's. A client that trusts the certificate itself needs no authority.
        let cluster = json!({
            "server": url,
            "certificate-authority-data": STANDARD.encode(certificate),
        });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kept", "cluster": cluster}],
            "users": [{"name": "kept", "user": {"token": self.token}}],
            "contexts": [{"name": "kept", "context": {"cluster": "kept", "user": "kept"}}],
            "current-context": "kept",
        });
        let text = serde_saphyr::to_string(&config)?;
        write_private(&self.kubeconfig, &text)
            .with_context(|| format!("cannot write {}", self.kubeconfig.display()))
    }
}
