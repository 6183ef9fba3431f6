//! Settings of TLS.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kalends_environment::SystemClock;
use kalends_server::{Tls, TlsFiles};
use tokio::signal::unix::{SignalKind, signal};

/// TLS.
#[derive(clap::Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct Encryption {
    /// The certificate with those that vouch for it, in PEM; with it, https is spoken. New files are
    /// taken when they change, and at once on SIGHUP
    #[arg(long, env = "KALENDS_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// The key of the certificate, in PEM
    #[arg(long, env = "KALENDS_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Who vouches for clients, in PEM; with it, clients without a certificate are refused
    #[arg(long, env = "KALENDS_TLS_CLIENT_CA", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

impl Encryption {
    /// What connections are encrypted with, if at all.
    pub(crate) fn read(self) -> anyhow::Result<Option<Arc<Tls>>> {
        let files = match (self.tls_cert, self.tls_key) {
            (Some(certificate), Some(key)) => {
                TlsFiles { certificate, key, client_authorities: self.tls_client_ca }
            }
            (None, None) if self.tls_client_ca.is_none() => return Ok(None),
            _ => bail!("--tls-cert and --tls-key are given both, or none of them"),
        };
        let tls = Tls::read(files, Arc::new(SystemClock)).context("cannot set up TLS")?;
        Ok(Some(Arc::new(tls)))
    }
}

/// Reads the files again whenever the process is told to.
pub(crate) fn read_on_signal(tls: Option<Arc<Tls>>) -> anyhow::Result<()> {
    let mut told = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while told.recv().await.is_some() {
            tls.iter().for_each(|tls| tls.read_again());
        }
    });
    Ok(())
}
