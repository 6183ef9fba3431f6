//! Whom we trust, and as whom we come.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use kalends_domain::{Limits, Secret};
use kalends_environment::Stopwatch;
use ring::digest::{Context, SHA256};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::connect::Protocols;
use super::no_connection::NoConnection;
use super::transport::Transport;
use crate::certificate::read_pfx;

/// Client certificates that are kept ready; the one not used for longest goes first.
const IDENTITIES_MAX: usize = 256;

/// As whom a connection is made.
#[derive(Clone, Default)]
pub(crate) struct Identity(Option<Arc<Certified>>);

struct Certified {
    digest: [u8; 32],
    configs: Configs,
}

impl Identity {
    /// As nobody.
    pub(crate) fn none() -> Identity {
        Identity(None)
    }

    /// Tells identities apart; none for nobody.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        self.0.as_ref().map(|certified| certified.digest)
    }
}

/// Settings of connections. Each identity has its own, and so its own memory of sessions.
struct Configs {
    /// Offers HTTP/2 and HTTP/1.1.
    http: Arc<ClientConfig>,
    /// Offers nothing.
    other: Arc<ClientConfig>,
}

type Reading = Arc<OnceCell<Result<Identity, String>>>;

/// Makes encrypted connections.
pub(super) struct Tls {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    nobody: Configs,
    identities: Mutex<HashMap<[u8; 32], (Stopwatch, Reading)>>,
}

impl Tls {
    /// Trusts what the system trusts, and `trusted`, certificates in PEM.
    pub(super) fn new(trusted: &[u8]) -> io::Result<Tls> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for certificate in CertificateDer::pem_slice_iter(trusted) {
            roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        let (roots, provider) =
            (Arc::new(roots), Arc::new(rustls::crypto::ring::default_provider()));
        let nobody = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        Ok(Tls { nobody: Configs::of(nobody), roots, provider, identities: Mutex::default() })
    }

    /// The identity of a PFX file. It is read once, off the threads that wait for the network.
    pub(super) async fn identity(
        self: &Arc<Tls>,
        pfx: &Secret,
        password: &Secret,
    ) -> Result<Identity, String> {
        let digest = digest(pfx, password);
        let reading = self.reading(digest);
        let read = || async {
            let (tls, pfx, password) = (self.clone(), pfx.clone(), password.clone());
            let read = tokio::task::spawn_blocking(move || tls.read(digest, &pfx, &password));
            read.await.unwrap_or_else(|error| Err(error.to_string()))
        };
        reading.get_or_init(read).await.clone()
    }

    fn reading(&self, digest: [u8; 32]) -> Reading {
        let mut identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, reading)) = identities.get_mut(&digest) {
            *used = Stopwatch::start();
            return reading.clone();
        }
        if identities.len() >= IDENTITIES_MAX {
            let oldest = identities.iter().max_by_key(|(_, (used, _))| used.elapsed());
            if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
                identities.remove(&oldest);
            }
        }
        let reading = Reading::default();
        identities.insert(digest, (Stopwatch::start(), reading.clone()));
        reading
    }

    fn read(&self, digest: [u8; 32], pfx: &Secret, password: &Secret) -> Result<Identity, String> {
        // The file was held to the limits when the job was defined.
        let read = read_pfx(pfx, password, &Limits::default()).map_err(|fault| fault.message)?;
        let chain = read.chain().iter().map(|der| CertificateDer::from(der.clone())).collect();
        let key = PrivatePkcs8KeyDer::from(read.key().reveal().to_vec());
        let unusable = |error: rustls::Error| error.to_string();
        let config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_root_certificates(self.roots.clone())
            .with_client_auth_cert(chain, key.into())
            .map_err(unusable)?;
        Ok(Identity(Some(Arc::new(Certified { digest, configs: Configs::of(config) }))))
    }

    /// Encrypts a connection, and makes sure that who answers is `name`.
    pub(super) async fn secure(
        &self,
        stream: TcpStream,
        name: String,
        identity: &Identity,
        protocols: Protocols,
    ) -> Result<Transport, NoConnection> {
        let name = ServerName::try_from(name)
            .map_err(|_| NoConnection::Untrusted("no certificate is for such a name".into()))?;
        let configs = identity.0.as_ref().map_or(&self.nobody, |certified| &certified.configs);
        let config = match protocols {
            Protocols::Http => &configs.http,
            Protocols::Other => &configs.other,
        };
        let connecting = TlsConnector::from(config.clone()).connect(name, stream).await;
        connecting.map(|stream| Transport::Tls(Box::new(stream))).map_err(|error| {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
            match cause {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    NoConnection::Untrusted(error.to_string())
                }
                _ => NoConnection::Insecure(error.to_string()),
            }
        })
    }
}

impl Configs {
    fn of(config: ClientConfig) -> Configs {
        let mut http = config.clone();
        http.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A copy would share its memory of sessions with what it was copied from.
        http.resumption = rustls::client::Resumption::default();
        Configs { http: Arc::new(http), other: Arc::new(config) }
    }
}

fn digest(pfx: &Secret, password: &Secret) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    context.update(&pfx.reveal().len().to_be_bytes());
    context.update(pfx.reveal().as_bytes());
    context.update(password.reveal().as_bytes());
    let mut digest = [0; 32];
    digest.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    digest
}
