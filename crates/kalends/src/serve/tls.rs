//! TLS settings of the API.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kalends_environment::SystemClock;
use kalends_server::{Tls, TlsFiles};
use tokio::signal::unix::{SignalKind, signal};

/// TLS settings of the API.
#[derive(clap::Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsSettings {
    /// PEM file with the certificate chain; enables HTTPS. The server reloads the TLS files when they
    /// change, and immediately on SIGHUP
    #[arg(long, env = "KALENDS_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// PEM file with the private key of the certificate
    #[arg(long, env = "KALENDS_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// PEM file with the CA bundle that verifies client certificates; makes them mandatory
    #[arg(long, env = "KALENDS_TLS_CLIENT_CA", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

impl TlsSettings {
    /// Reads the certificate and key; `None` without TLS.
    pub(crate) fn read(self) -> anyhow::Result<Option<Arc<Tls>>> {
        let files = match (self.tls_cert, self.tls_key) {
            (Some(certificate), Some(key)) => {
                TlsFiles { certificate, key, client_ca: self.tls_client_ca }
            }
            (None, None) if self.tls_client_ca.is_none() => return Ok(None),
            _ => bail!("--tls-cert and --tls-key must be set together"),
        };
        let tls = Tls::load(files, Arc::new(SystemClock)).context("cannot set up TLS")?;
        Ok(Some(Arc::new(tls)))
    }
}

/// Reloads the TLS files on SIGHUP.
pub(crate) fn reload_on_sighup(tls: Option<Arc<Tls>>) -> anyhow::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            tls.iter().for_each(|tls| tls.reload());
        }
    });
    Ok(())
}
