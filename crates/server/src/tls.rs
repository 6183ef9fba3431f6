//! Encryption of connections: the certificate, and taking a new one while the server runs.
//!
//! The files are looked at when a connection comes, and not more often than every few seconds, so
//! an idle server does nothing. Files that cannot be used leave everything as it was.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kalends_environment::Clock;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// The files are looked at no more often.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// Certificates in a file; a chain has three or four, a list of authorities some hundred.
const CERTIFICATES_MAX: usize = 1_000;
/// What is offered to clients, the best first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// The name of HTTP/2 in the handshake.
pub(crate) const HTTP2: &[u8] = b"h2";

/// Where the certificate is.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate with those that vouch for it, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// Who vouches for clients, in PEM; with it, clients without a certificate are refused.
    pub client_authorities: Option<PathBuf>,
}

/// What is shown to clients.
pub struct Tls {
    files: TlsFiles,
    clock: Arc<dyn Clock>,
    shown: Mutex<Shown>,
}

struct Shown {
    config: Arc<ServerConfig>,
    /// How the files looked when they were last read.
    stamps: Vec<Stamp>,
    look_at: Duration,
}

/// How a file looks from outside.
type Stamp = Option<(SystemTime, u64)>;

/// Why files cannot be used.
#[derive(Debug)]
pub struct TlsError {
    file: PathBuf,
    cause: String,
}

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.cause)
    }
}

impl std::error::Error for TlsError {}

impl Tls {
    /// Reads the files.
    pub fn read(files: TlsFiles, clock: Arc<dyn Clock>) -> Result<Tls, TlsError> {
        let stamps = files.stamps();
        let config = Arc::new(files.config()?);
        let look_at = clock.uptime();
        Ok(Tls { files, clock, shown: Mutex::new(Shown { config, stamps, look_at }) })
    }

    /// Reads the files again, whether they have changed or not.
    pub fn read_again(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        self.renew(&mut shown);
    }

    /// What a connection that comes now is shown.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.uptime();
        if now >= shown.look_at {
            shown.look_at = now + LOOK_EVERY;
            if self.files.stamps() != shown.stamps {
                self.renew(&mut shown);
            }
        }
        Arc::clone(&shown.config)
    }

    fn renew(&self, shown: &mut Shown) {
        // Before they are read: what changes meanwhile is noticed the next time.
        shown.stamps = self.files.stamps();
        match self.files.config() {
            Ok(config) => {
                shown.config = Arc::new(config);
                tracing::info!(
                    "new connections are shown the certificate as it is in its file now"
                );
            }
            Err(error) => {
                tracing::warn!(%error, "the new certificate cannot be used; the old one stays");
            }
        }
    }
}

impl TlsFiles {
    fn stamps(&self) -> Vec<Stamp> {
        let stamp = |path: &PathBuf| {
            let data = std::fs::metadata(path).ok()?;
            Some((data.modified().ok()?, data.len()))
        };
        [&self.certificate, &self.key]
            .into_iter()
            .chain(&self.client_authorities)
            .map(stamp)
            .collect()
    }

    fn config(&self) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder =
            builder.with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12]);
        let builder = builder.map_err(|error| wrong(&self.certificate, error))?;
        let builder = match &self.client_authorities {
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
        // What is wrong with a key is told in general words only.
        let key = key.map_err(|_| wrong(&self.key, "it holds no private key in PEM"))?;
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| wrong(&self.certificate, error))?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
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
