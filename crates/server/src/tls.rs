//! TLS configuration, reloaded while the server runs.
//!
//! The files are checked when a connection is accepted, at most every three seconds, so an idle
//! server does no work. If new files cannot be used, the previous configuration remains in use.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kalends_environment::Clock;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Minimum interval between two checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// Certificates in a file; a chain has three or four, a CA bundle about a hundred.
const CERTIFICATES_MAX: usize = 1_000;
/// ALPN protocols, the preferred one first.
const ALPN_PROTOCOLS: [&[u8]; 2] = [ALPN_HTTP2, b"http/1.1"];
/// ALPN name of HTTP/2.
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";

/// PEM files of the TLS configuration.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate chain, the server's certificate first.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// CA bundle that verifies client certificates. If set, clients without a valid certificate are
    /// rejected.
    pub client_ca: Option<PathBuf>,
}

/// TLS configuration of a listener.
pub struct Tls {
    files: TlsFiles,
    clock: Arc<dyn Clock>,
    current: Mutex<Loaded>,
}

struct Loaded {
    config: Arc<ServerConfig>,
    /// The files as they were when they were loaded.
    stamps: Vec<FileStamp>,
    /// Uptime of the next check of the files.
    next_check: Duration,
}

/// Modification time and length of a file; `None` if it cannot be read.
type FileStamp = Option<(SystemTime, u64)>;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", file.display())]
pub struct TlsError {
    file: PathBuf,
    cause: String,
}

impl Tls {
    /// Loads the files.
    pub fn load(files: TlsFiles, clock: Arc<dyn Clock>) -> Result<Tls, TlsError> {
        let stamps = files.stamps();
        let config = Arc::new(files.config()?);
        let next_check = clock.uptime();
        Ok(Tls { files, clock, current: Mutex::new(Loaded { config, stamps, next_check }) })
    }

    /// Loads the files again, whether or not they have changed.
    pub fn reload(&self) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.replace(&mut current);
    }

    /// The configuration for a new connection. Reloads the files if they have changed.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.uptime();
        if now >= current.next_check {
            current.next_check = now + CHECK_INTERVAL;
            if self.files.stamps() != current.stamps {
                self.replace(&mut current);
            }
        }
        Arc::clone(&current.config)
    }

    fn replace(&self, current: &mut Loaded) {
        // Before loading, so that a change during the load is noticed by the next check.
        current.stamps = self.files.stamps();
        match self.files.config() {
            Ok(config) => {
                current.config = Arc::new(config);
                tracing::info!("TLS certificate reloaded");
            }
            Err(error) => {
                tracing::warn!(%error, "reloading the TLS certificate failed, the previous one remains in use");
            }
        }
    }
}

impl TlsFiles {
    fn stamps(&self) -> Vec<FileStamp> {
        let stamp = |path: &PathBuf| {
            let data = std::fs::metadata(path).ok()?;
            Some((data.modified().ok()?, data.len()))
        };
        [&self.certificate, &self.key].into_iter().chain(&self.client_ca).map(stamp).collect()
    }

    fn config(&self) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder =
            builder.with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12]);
        let builder = builder.map_err(|error| wrong(&self.certificate, error))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| wrong(path, error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build().map_err(|error| wrong(path, error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key);
        // The cause is dropped: it might reveal a part of the key.
        let key = key.map_err(|_| wrong(&self.key, "it holds no private key in PEM"))?;
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| wrong(&self.certificate, error))?;
        config.alpn_protocols = ALPN_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, error))?;
    let found: Result<Vec<_>, _> = found.take(CERTIFICATES_MAX).collect();
    match found {
        Ok(found) if found.is_empty() => Err(wrong(path, "it holds no certificate in PEM")),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(path, error)),
    }
}

fn wrong(path: &Path, cause: impl ToString) -> TlsError {
    TlsError { file: path.to_owned(), cause: cause.to_string() }
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> io::Error {
        io::Error::other(error)
    }
}
