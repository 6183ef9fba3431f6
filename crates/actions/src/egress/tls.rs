//! TLS: trusted CA certificates and client certificates.

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
use super::error::{ConnectError, IdentityError};
use super::transport::Transport;
use crate::certificate::{PfxLimit, open_pfx};

/// Cached client certificates; the least recently used is evicted.
const IDENTITIES_MAX: usize = 256;

/// The client certificate of a connection, or none.
#[derive(Clone, Default)]
pub(crate) struct Identity(Option<Arc<ClientCertificate>>);

struct ClientCertificate {
    /// Digest of the PFX file and its password.
    digest: [u8; 32],
    configs: ClientConfigs,
}

impl Identity {
    /// No client certificate.
    pub(crate) fn none() -> Identity {
        Identity(None)
    }

    /// Identifies the client certificate; `None` without one.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        self.0.as_ref().map(|certificate| certificate.digest)
    }
}

/// TLS configurations. Each identity has its own, and with it its own session cache.
struct ClientConfigs {
    /// Offers HTTP/2 and HTTP/1.1.
    http: Arc<ClientConfig>,
    /// Offers no protocol by ALPN.
    other: Arc<ClientConfig>,
}

type CachedIdentity = Arc<OnceCell<Result<Identity, IdentityError>>>;

/// Performs TLS handshakes as a client.
pub(super) struct TlsClient {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    anonymous: ClientConfigs,
    identities: Mutex<HashMap<[u8; 32], (Stopwatch, CachedIdentity)>>,
    pfx_limit: PfxLimit,
}

impl TlsClient {
    /// Trusts the CA certificates of the system and those in `ca_bundle`, in PEM.
    pub(super) fn new(ca_bundle: &[u8]) -> io::Result<TlsClient> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for certificate in CertificateDer::pem_slice_iter(ca_bundle) {
            roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        let (roots, provider) =
            (Arc::new(roots), Arc::new(rustls::crypto::ring::default_provider()));
        let anonymous = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        let anonymous = ClientConfigs::of(anonymous);
        let (identities, pfx_limit) = (Mutex::default(), PfxLimit::default());
        Ok(TlsClient { anonymous, roots, provider, identities, pfx_limit })
    }

    /// Reads the identity in a PFX file, on a blocking thread, and caches it.
    pub(super) async fn identity(
        self: &Arc<TlsClient>,
        pfx: &Secret,
        password: &Secret,
    ) -> Result<Identity, IdentityError> {
        let digest = digest(pfx, password);
        let cached = self.cached(digest);
        let read = || async {
            let (tls, pfx, password) = (self.clone(), pfx.clone(), password.clone());
            let read = self.pfx_limit.run(move || tls.read(digest, &pfx, &password));
            read.await.map_err(Arc::new)?
        };
        cached.get_or_init(read).await.clone()
    }

    fn cached(&self, digest: [u8; 32]) -> CachedIdentity {
        let mut identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, cached)) = identities.get_mut(&digest) {
            *used = Stopwatch::start();
            return cached.clone();
        }
        if identities.len() >= IDENTITIES_MAX {
            let oldest = identities.iter().max_by_key(|(_, (used, _))| used.elapsed());
            if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
                identities.remove(&oldest);
            }
        }
        let cached = CachedIdentity::default();
        identities.insert(digest, (Stopwatch::start(), cached.clone()));
        cached
    }

    fn read(
        &self,
        digest: [u8; 32],
        pfx: &Secret,
        password: &Secret,
    ) -> Result<Identity, IdentityError> {
        // The configured limits were checked when the job was defined.
        let identity = open_pfx(pfx, password, &Limits::default())?;
        let chain = identity.chain().iter().map(|der| CertificateDer::from(der.clone())).collect();
        let key = PrivatePkcs8KeyDer::from(identity.key().reveal().to_vec());
        let config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots.clone())
            .with_client_auth_cert(chain, key.into())?;
        let configs = ClientConfigs::of(config);
        Ok(Identity(Some(Arc::new(ClientCertificate { digest, configs }))))
    }

    /// Performs the handshake and verifies the server's certificate against `name`.
    pub(super) async fn handshake(
        &self,
        stream: TcpStream,
        name: String,
        identity: &Identity,
        protocols: Protocols,
    ) -> Result<Transport, ConnectError> {
        let name = ServerName::try_from(name).map_err(|_| ConnectError::InvalidServerName)?;
        let certificate = identity.0.as_ref();
        let configs = certificate.map_or(&self.anonymous, |certificate| &certificate.configs);
        let config = match protocols {
            Protocols::Http => &configs.http,
            Protocols::Other => &configs.other,
        };
        let connected = TlsConnector::from(config.clone()).connect(name, stream).await;
        connected.map(|stream| Transport::Tls(Box::new(stream))).map_err(|error| {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
            match cause {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    ConnectError::Untrusted(Arc::new(error))
                }
                _ => ConnectError::Handshake(Arc::new(error)),
            }
        })
    }
}

impl ClientConfigs {
    fn of(config: ClientConfig) -> ClientConfigs {
        let mut http = config.clone();
        http.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A clone would share the session cache with the original.
        http.resumption = rustls::client::Resumption::default();
        ClientConfigs { http: Arc::new(http), other: Arc::new(config) }
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
