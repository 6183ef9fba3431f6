//! Connections over TLS, and certificates that are replaced.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kalends_environment::{Clock as _, ManualClock, SystemClock};
use kalends_server::{Hosts, Patience, Settings, Tls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::serving::{LONG, SHORT, Server, start_with};

/// Who vouches for certificates, and where those of the server are.
struct Place {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
    clock: Arc<ManualClock>,
}

impl Place {
    fn new() -> Place {
        let mut parameters = CertificateParams::new(vec![]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(parameters, key).unwrap();
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let place = Place { folder: TempDir::new().unwrap(), authority, clock };
        place.write("server");
        std::fs::write(place.file("authority.pem"), place.authority.pem()).unwrap();
        place
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// A new certificate and its key.
    fn write(&self, name: &str) {
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
            client_authorities: None,
        }
    }

    fn tls(&self, files: TlsFiles) -> Arc<Tls> {
        Arc::new(Tls::read(files, self.clock.clone()).unwrap())
    }

    async fn start(&self, head: Duration) -> Server {
        let settings =
            Settings { patience: Patience { head, body: LONG, next: head }, ..Settings::default() };
        start_with(settings, Some(self.tls(self.files()))).await
    }

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

/// The whole answer to a request over HTTP/1.1; what went wrong, where there is none.
async fn ask(address: SocketAddr, config: ClientConfig) -> std::io::Result<String> {
    let mut stream = connect(address, config).await;
    let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The certificate that a new connection is shown.
async fn shown(place: &Place, address: SocketAddr) -> Vec<u8> {
    let stream = connect(address, place.client(&[], None)).await;
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

fn kept(file: &Path) -> Vec<u8> {
    CertificateDer::from_pem_file(file).unwrap().to_vec()
}

#[tokio::test]
async fn both_protocols_are_spoken_over_tls() {
    let place = Place::new();
    let server = place.start(LONG).await;
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let answer = ask(server.address, place.client(protocols, None)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok"), "{answer}");
        assert!(!answer.contains("strict-transport-security"), "localhost is shared: {answer}");
    }
    let stream = connect(server.address, place.client(&[b"h2", b"http/1.1"], None)).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = axum::http::Request::get("https://localhost/livez").body(()).unwrap();
    let (answer, _) = requests.send_request(request, true).unwrap();
    assert_eq!(answer.await.unwrap().status(), 200);
}

#[tokio::test]
async fn browsers_are_told_that_a_name_is_served_over_tls_alone() {
    let place = Place::new();
    let settings = Settings { hosts: Hosts::Any, ..Settings::default() };
    let server = start_with(settings, Some(place.tls(place.files()))).await;
    let answer = ask(server.address, place.client(&[], None)).await.unwrap();
    assert!(answer.contains("strict-transport-security: max-age=31536000\r\n"), "{answer}");
}

#[tokio::test]
async fn a_handshake_that_does_not_come_closes_the_connection() {
    let place = Place::new();
    let server = place.start(SHORT).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[tokio::test]
async fn a_new_certificate_is_taken_and_a_bad_one_is_not() {
    let place = Place::new();
    let server = place.start(LONG).await;
    let first = kept(&place.file("server.pem"));
    assert_eq!(shown(&place, server.address).await, first);
    place.write("server");
    let second = kept(&place.file("server.pem"));
    place.pass_time();
    assert_eq!(shown(&place, server.address).await, second);
    // A certificate that has come before its key.
    let key = std::fs::read(place.file("server.key")).unwrap();
    place.write("server");
    let third = kept(&place.file("server.pem"));
    let third_key = std::fs::read(place.file("server.key")).unwrap();
    std::fs::write(place.file("server.key"), key).unwrap();
    place.pass_time();
    assert_eq!(shown(&place, server.address).await, second);
    std::fs::write(place.file("server.key"), [&third_key[..], b"\n"].concat()).unwrap();
    place.pass_time();
    assert_eq!(shown(&place, server.address).await, third);
    std::fs::remove_file(place.file("server.pem")).unwrap();
    place.pass_time();
    assert_eq!(shown(&place, server.address).await, third);
}

#[tokio::test]
async fn clients_show_a_certificate_where_that_is_asked() {
    let place = Place::new();
    place.write("client");
    let authorities = Some(place.file("authority.pem"));
    let files = TlsFiles { client_authorities: authorities, ..place.files() };
    let server = start_with(Settings::default(), Some(place.tls(files))).await;
    let answer = ask(server.address, place.client(&[], Some("client"))).await.unwrap();
    assert!(answer.ends_with("ok"), "{answer}");
    assert!(ask(server.address, place.client(&[], None)).await.is_err());
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let place = Place::new();
    let refused =
        |files: TlsFiles| Tls::read(files, place.clock.clone()).err().unwrap().to_string();
    let gone = refused(TlsFiles { certificate: place.file("gone.pem"), ..place.files() });
    assert!(gone.contains("gone.pem: "), "{gone}");
    let no_key = refused(TlsFiles { key: place.file("server.pem"), ..place.files() });
    assert!(no_key.ends_with("server.pem: it holds no private key in PEM"), "{no_key}");
    let none = refused(TlsFiles { certificate: place.file("server.key"), ..place.files() });
    assert!(none.ends_with("server.key: it holds no certificate in PEM"), "{none}");
}
