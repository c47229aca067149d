//! Programs that a server runs, and the time that they share with it.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::Args;
use jiff::Timestamp;
use kube::Client;
use kubeproof::testbed::{
    AccountName, ExternalPrograms, Pace, ProgramTime, ReservedPrograms, ServedPrograms,
    ServedService, VirtualTime, share_time,
};
use kubeproof_apiserver::{ApiServer, ApiServerBuilder, Clock};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;

use crate::cli::{out, program};

/// The beginning of the names of files with the output of programs.
const OUTPUT: &str = "serve";

#[derive(Args)]
pub(super) struct ProgramArgs {
    /// Start this program once the server listens, and again whenever it ends, as a kubelet does. KUBECONFIG,
    /// KUBERNETES_SERVICE_HOST and the variables KUBEPROOF_URL, _NAMESPACE, _CA, _TOKEN, _SERVICE_ACCOUNT, _WEBHOOK_PORT and
    /// _WEBHOOK_CERTS describe the server; in the command, {url}, {token} and so on stand for their values. May be repeated.
    #[arg(long, value_name = "COMMAND", alias = "controller", value_parser = program::command)]
    program: Vec<String>,
    /// Run the server, its nodes, its controllers and the programs under virtual time. It passes no faster than real time, until a
    /// POST to /kubeproof/v1/clock?advance=10h lets ten hours pass at once. With --program it takes Linux on x86-64, and the
    /// permission to trace processes.
    #[arg(long)]
    virtual_time: bool,
    /// Let one thread of each program run at a time, until it waits or has computed for 20 ms.
    #[arg(long, requires = "program", requires = "virtual_time")]
    sequential: bool,
    /// Run the programs as this service account, with the permissions that its roles grant and no others. It has to exist
    /// when the programs start, such as by --load.
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "program")]
    as_service_account: Option<AccountName>,
    /// Keep what the programs print in this directory, in files serve.program-1.log [default: it goes to standard error].
    #[arg(long, value_name = "DIR", requires = "program")]
    program_output: Option<PathBuf>,
}

/// What programs need that exists before their server does; `None` without programs.
pub(super) type Reserved = Option<(ExternalPrograms, ReservedPrograms)>;

/// The programs of a server, and its time if that is virtual.
pub(super) struct Programs {
    /// Locked while they are started or stopped.
    served: Mutex<Option<ServedPrograms>>,
    /// The time passes as long as this lives.
    _time: Option<Arc<VirtualTime>>,
}

impl ProgramArgs {
    pub(super) fn time(&self) -> ProgramTime {
        match self.virtual_time {
            true => ProgramTime::Virtual,
            false => ProgramTime::Real,
        }
    }

    /// Whether the server is alone in its process, and its time passes by itself.
    pub(super) fn are_none_in_real_time(&self) -> bool {
        self.program.is_empty() && !self.virtual_time
    }

    /// Makes the runtime of the server.
    pub(super) fn runtime(&self) -> anyhow::Result<Runtime> {
        let mut builder = match self.time() {
            ProgramTime::Real => Builder::new_multi_thread(),
            ProgramTime::Virtual => {
                if !self.program.is_empty() {
                    let checked = kubeproof_tracer::check();
                    checked.context("without --virtual-time the programs run in real time")?;
                }
                let mut builder = Builder::new_current_thread();
                share_time(builder.start_paused(true));
                builder
            }
        };
        Ok(builder.enable_all().build()?)
    }

    /// The clock of a new server: it shows the present time.
    pub(super) fn clock(&self) -> Clock {
        match self.time() {
            ProgramTime::Real => Clock::real(),
            ProgramTime::Virtual => Clock::shared(Clock::real().now()),
        }
    }

    /// What makes the clock of a server that continues from a time.
    pub(super) fn clock_from(&self) -> fn(Timestamp) -> Clock {
        match self.time() {
            ProgramTime::Real => Clock::real_from,
            ProgramTime::Virtual => Clock::shared,
        }
    }

    /// Reserves what programs need, and lets the server of `builder` call the `services` that they serve.
    pub(super) fn reserve(
        &self,
        builder: ApiServerBuilder,
        services: Vec<ServedService>,
    ) -> anyhow::Result<(Reserved, ApiServerBuilder)> {
        if self.program.is_empty() {
            ensure!(
                services.is_empty(),
                "--service: an address is expected where there is no --program"
            );
            return Ok((None, builder));
        }
        let output = self.program_output.as_ref();
        if let Some(directory) = output {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let programs = ExternalPrograms {
            commands: self.program.clone(),
            time: self.time(),
            is_sequential: self.sequential,
            account: self.as_service_account.clone(),
            services,
            output: output.map(|directory| directory.join(OUTPUT)),
            ..ExternalPrograms::default()
        };
        let (reserved, builder) = ReservedPrograms::reserve(&programs, builder)?;
        Ok((Some((programs, reserved)), builder))
    }
}

impl Programs {
    /// Begins virtual time if it is asked for, and opens the sockets for programs of `server`, which may ask for credentials.
    pub(super) async fn open(
        args: &ProgramArgs,
        reserved: Reserved,
        (server, asks): (&ApiServer, bool),
    ) -> anyhow::Result<Self> {
        let time = match args.time() {
            ProgramTime::Real => None,
            ProgramTime::Virtual => {
                let time = VirtualTime::begin(server.clock(), args.sequential, Pace::Real);
                Some(Arc::new(time.context("--virtual-time")?))
            }
        };
        let served = match reserved {
            None => None,
            Some((programs, reserved)) => {
                let server = (server, asks);
                Some(ServedPrograms::open(programs, reserved, server, time.clone()).await?)
            }
        };
        Ok(Self {
            served: Mutex::new(served),
            _time: time,
        })
    }

    /// Starts the programs; `client` is an administrator's.
    pub(super) async fn start(&self, client: &Client) -> anyhow::Result<()> {
        match &mut *self.served.lock().await {
            Some(served) => Ok(served.start(client, out::note).await?),
            None => Ok(()),
        }
    }

    /// Asks the programs to end, and waits for them.
    pub(super) async fn stop(self) {
        if let Some(served) = self.served.into_inner() {
            served.stop().await;
        }
    }
}
