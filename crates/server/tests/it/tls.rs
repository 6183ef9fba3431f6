//! TLS connections and certificate reload.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kalends_environment::{Clock as _, ManualClock, SystemClock};
use kalends_server::{AllowedHosts, Settings, Timeouts, Tls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::test_server::{LONG, SHORT, Server, start_with};

/// A certificate authority and a directory with certificates.
struct TestPki {
    directory: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
    clock: Arc<ManualClock>,
}

impl TestPki {
    fn new() -> TestPki {
        let mut parameters = CertificateParams::new(vec![]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(parameters, key).unwrap();
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let pki = TestPki { directory: TempDir::new().unwrap(), authority, clock };
        pki.issue("server");
        std::fs::write(pki.file("authority.pem"), pki.authority.pem()).unwrap();
        pki
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a new certificate and its key.
    fn issue(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.authority).unwrap();
        std::fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.file("server.pem"),
            key: self.file("server.key"),
            client_ca: None,
        }
    }

    fn tls(&self, files: TlsFiles) -> Arc<Tls> {
        Arc::new(Tls::load(files, self.clock.clone()).unwrap())
    }

    async fn start(&self, head: Duration) -> Server {
        let settings = Settings {
            timeouts: Timeouts { request_head: head, request_body: LONG, keep_alive: head },
            ..Settings::default()
        };
        start_with(settings, Some(self.tls(self.files()))).await
    }

    /// Lets the interval between two checks of the files pass.
    fn pass_time(&self) {
        self.clock.set(self.clock.now().checked_add(Duration::from_secs(60)).unwrap());
    }

    fn client(&self, protocols: &[&[u8]], own: Option<&str>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let certificate = CertificateDer::from_pem_file(self.file(&format!("{name}.pem")));
                let key = PrivateKeyDer::from_pem_file(self.file(&format!("{name}.key"))).unwrap();
                builder.with_client_auth_cert(vec![certificate.unwrap()], key).unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config
    }
}

async fn connect(address: SocketAddr, config: ClientConfig) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// Sends a request over HTTP/1.1 and returns the whole response.
async fn send(address: SocketAddr, config: ClientConfig) -> std::io::Result<String> {
    let mut stream = connect(address, config).await;
    let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}

/// The certificate that the server presents on a new connection.
async fn presented(pki: &TestPki, address: SocketAddr) -> Vec<u8> {
    let stream = connect(address, pki.client(&[], None)).await;
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

fn read_certificate(file: &Path) -> Vec<u8> {
    CertificateDer::from_pem_file(file).unwrap().to_vec()
}

#[tokio::test]
async fn http1_and_http2_are_served_over_tls() {
    let pki = TestPki::new();
    let server = pki.start(LONG).await;
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let response = send(server.address, pki.client(protocols, None)).await.unwrap();
        assert!(
            response.starts_with("HTTP/1.1 200 ") && response.ends_with("\r\n\r\nok"),
            "{response}"
        );
        assert!(!response.contains("strict-transport-security"), "localhost is shared: {response}");
    }
    let stream = connect(server.address, pki.client(&[b"h2", b"http/1.1"], None)).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("https://localhost/livez").body(()).unwrap();
    let (response, _) = requests.send_request(request, true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
}

#[tokio::test]
async fn responses_over_tls_have_hsts() {
    let pki = TestPki::new();
    let settings = Settings { hosts: AllowedHosts::Any, ..Settings::default() };
    let server = start_with(settings, Some(pki.tls(pki.files()))).await;
    let response = send(server.address, pki.client(&[], None)).await.unwrap();
    assert!(response.contains("strict-transport-security: max-age=31536000\r\n"), "{response}");
}

#[tokio::test]
async fn a_missing_handshake_closes_the_connection() {
    let pki = TestPki::new();
    let server = pki.start(SHORT).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    let _ = plain.read_to_end(&mut response).await;
    assert!(!response.starts_with(b"HTTP"), "{response:?}");
}

#[tokio::test]
async fn a_new_certificate_is_loaded_and_an_invalid_one_is_ignored() {
    let pki = TestPki::new();
    let server = pki.start(LONG).await;
    let first = read_certificate(&pki.file("server.pem"));
    assert_eq!(presented(&pki, server.address).await, first);
    pki.issue("server");
    let second = read_certificate(&pki.file("server.pem"));
    pki.pass_time();
    assert_eq!(presented(&pki, server.address).await, second);
    // A certificate that was replaced before its key.
    let key = std::fs::read(pki.file("server.key")).unwrap();
    pki.issue("server");
    let third = read_certificate(&pki.file("server.pem"));
    let third_key = std::fs::read(pki.file("server.key")).unwrap();
    std::fs::write(pki.file("server.key"), key).unwrap();
    pki.pass_time();
    assert_eq!(presented(&pki, server.address).await, second);
    std::fs::write(pki.file("server.key"), [&third_key[..], b"\n"].concat()).unwrap();
    pki.pass_time();
    assert_eq!(presented(&pki, server.address).await, third);
    std::fs::remove_file(pki.file("server.pem")).unwrap();
    pki.pass_time();
    assert_eq!(presented(&pki, server.address).await, third);
}

#[tokio::test]
async fn client_certificates_are_required_if_a_client_ca_is_set() {
    let pki = TestPki::new();
    pki.issue("client");
    let authorities = Some(pki.file("authority.pem"));
    let files = TlsFiles { client_ca: authorities, ..pki.files() };
    let server = start_with(Settings::default(), Some(pki.tls(files))).await;
    let response = send(server.address, pki.client(&[], Some("client"))).await.unwrap();
    assert!(response.ends_with("ok"), "{response}");
    assert!(send(server.address, pki.client(&[], None)).await.is_err());
}

#[test]
fn errors_name_the_file() {
    let pki = TestPki::new();
    let error = |files: TlsFiles| Tls::load(files, pki.clock.clone()).err().unwrap().to_string();
    let gone = error(TlsFiles { certificate: pki.file("gone.pem"), ..pki.files() });
    assert!(gone.contains("gone.pem: "), "{gone}");
    let no_key = error(TlsFiles { key: pki.file("server.pem"), ..pki.files() });
    assert!(no_key.ends_with("server.pem: it holds no private key in PEM"), "{no_key}");
    let none = error(TlsFiles { certificate: pki.file("server.key"), ..pki.files() });
    assert!(none.ends_with("server.key: it holds no certificate in PEM"), "{none}");
}
