//! TLS: trusted CAs, client certificates, and the errors without trust.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kalends_actions::EgressSettings;
use kalends_domain::{HttpAuthentication, HttpRequest, Secret};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use crate::data;
use crate::harness::{
    OK, SHORT, Sink, attempt, execute, executor, get, has_succeeded, open, read_request, request,
    respond_to_all,
};

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Test Authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Settings that trust the authority.
    pub(crate) fn trusted(&self) -> EgressSettings {
        EgressSettings { ca_bundle: self.0.pem().into_bytes(), ..open() }
    }

    /// Issues a certificate for a name, with its key.
    pub(crate) fn certify(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Certified {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certified { chain: vec![certificate.der().clone()], key: key.serialize_der() }
    }
}

pub(crate) struct Certified {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: Vec<u8>,
}

/// Whether a server requests or requires a client certificate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wants {
    Nothing,
    IfYouLike,
    Always,
}

/// Accepts any client certificate, so that the test sees which one was sent.
#[derive(Debug)]
struct Anybody(Wants, WebPkiSupportedAlgorithms);

impl ClientCertVerifier for Anybody {
    fn offer_client_auth(&self) -> bool {
        self.0 != Wants::Nothing
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0 == Wants::Always
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.1)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.1)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.supported_schemes()
    }
}

/// A TLS server that responds with the size of the client certificate, or 0 without one.
async fn serve(certified: Certified, wants: Wants) -> Sink {
    let provider = Arc::new(ring::default_provider());
    let anybody = Anybody(wants, provider.signature_verification_algorithms);
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(Arc::new(anybody))
        .with_single_cert(certified.chain, PrivatePkcs8KeyDer::from(certified.key).into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Sink::start("127.0.0.1:0", move |stream, number, requests| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let shown = stream.get_ref().1.peer_certificates();
            let shown = shown.map_or(0, |chain| chain[0].len()).to_string();
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{shown}", shown.len());
            respond_to_all(stream, number, &requests, &move |_| answer.clone()).await;
        }
    })
    .await
}

/// A TLS server that requests no client certificate.
pub(crate) async fn serve_plainly(certified: Certified) -> Sink {
    serve(certified, Wants::Nothing).await
}

fn uri(sink: &Sink, host: &str) -> String {
    format!("https://{host}:{}/", sink.address.port())
}

fn with_certificate(uri: &str, file: &str, password: &str) -> HttpRequest {
    let authentication = HttpAuthentication::ClientCertificate {
        pfx: Some(Secret::new(STANDARD.encode(data(file)))),
        password: Some(Secret::new(password.into())),
        certificate: None,
    };
    HttpRequest { authentication: Some(Box::new(authentication)), ..request(uri) }
}

fn body(message: &str) -> usize {
    message.rsplit_once("Body: ").unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn only_authorities_in_the_ca_bundle_are_trusted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let sink = serve(authority.certify("localhost", |_| ()), Wants::Nothing).await;
    let report = get(&executor(authority.trusted()), &uri(&sink, "localhost")).await;
    assert!(has_succeeded(&report), "{}", report.message);
    assert!(report.timing.tls.is_some());
    for settings in [open(), other.trusted()] {
        let report = get(&executor(settings), &uri(&sink, "localhost")).await;
        assert!(report.message.contains("failed: TrustFailure"), "{}", report.message);
    }
}

#[tokio::test]
async fn invalid_server_certificates_are_refused_with_the_reason() {
    let authority = Authority::new();
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    let later = |params: &mut CertificateParams| params.not_before = date_time_ymd(2999, 1, 1);
    let self_signed = {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Certified { chain: vec![certificate.der().clone()], key: key.serialize_der() }
    };
    for (certified, reason) in [
        (authority.certify("localhost", expired), "expired"),
        (authority.certify("localhost", later), "not valid yet"),
        (authority.certify("other.test", |_| ()), "not valid for name"),
        (self_signed, "UnknownIssuer"),
    ] {
        let sink = serve(certified, Wants::Nothing).await;
        let report = get(&executor(authority.trusted()), &uri(&sink, "localhost")).await;
        assert!(report.message.contains("failed: TrustFailure"), "{}", report.message);
        assert!(report.message.contains(reason), "{reason}: {}", report.message);
    }
}

#[tokio::test]
async fn targets_without_a_supported_tls_version_are_refused() {
    // An alert of TLS 1.0: no common version.
    let old = Sink::start("127.0.0.1:0", |mut stream, _, _| async move {
        let _ = stream.write_all(b"\x15\x03\x01\x00\x02\x02\x46").await;
        let _ = read_request(&mut stream).await;
    })
    .await;
    let plain = Sink::start("127.0.0.1:0", |mut stream, _, _| async move {
        let _ = stream.write_all(OK.as_bytes()).await;
        let _ = read_request(&mut stream).await;
    })
    .await;
    // TLS 1.0, and TLS 1.2 with a null cipher: the client offered neither.
    let first = Sink::start("127.0.0.1:0", |stream, _, _| hello(stream, [3, 1], [0, 0x2f])).await;
    let null = Sink::start("127.0.0.1:0", |stream, _, _| hello(stream, [3, 3], [0, 0x3b])).await;
    for (name, sink) in [("alert", old), ("plain", plain), ("1.0", first), ("null", null)] {
        let report = get(&executor(open()), &uri(&sink, "localhost")).await;
        let message = report.message;
        assert!(message.contains("failed: SecureChannelFailure"), "{name}: {message}");
    }
}

/// Selects this TLS version and cipher, whatever the client offers, and waits.
async fn hello(mut stream: tokio::net::TcpStream, version: [u8; 2], cipher: [u8; 2]) {
    let hello = [&version[..], &[7; 32], &[0], &cipher, &[0]].concat();
    let handshake = [&[2, 0, 0, 38][..], &hello].concat();
    let record = [&[0x16][..], &version, &[0, 42], &handshake].concat();
    let _ = stream.write_all(&record).await;
    let _ = read_request(&mut stream).await;
}

#[tokio::test]
async fn a_handshake_that_never_completes_times_out() {
    let silent = Sink::start("127.0.0.1:0", |stream, _, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let mut attempt = attempt(request(&uri(&silent, "localhost")));
    attempt.timeout = SHORT;
    let report = execute(&executor(open()), attempt).await;
    assert!(report.message.contains("failed: Timeout"), "{}", report.message);
}

#[tokio::test]
async fn jobs_with_different_client_certificates_share_no_connection() {
    let authority = Authority::new();
    let mut sink = serve(authority.certify("localhost", |_| ()), Wants::IfYouLike).await;
    let executor = executor(authority.trusted());
    let uri = uri(&sink, "localhost");
    let mut connections = Vec::new();
    for file in
        [Some("aes256-single.pfx"), None, Some("ec-p256.pfx"), Some("aes256-single.pfx"), None]
    {
        let request = match file {
            Some(file) => with_certificate(&uri, file, "secret"),
            None => request(&uri),
        };
        let report = execute(&executor, attempt(request)).await;
        assert!(has_succeeded(&report), "{}", report.message);
        let shown = body(&report.message);
        assert_eq!(shown > 0, file.is_some(), "{file:?}");
        connections.push((sink.next().await.0, shown));
    }
    let [(a, first), (b, _), (c, other), (d, again), (e, _)] = connections[..] else { panic!() };
    assert!(a != b && b != c && a != c, "each identity has its own connection");
    assert_eq!((d, e), (a, b), "and reuses it");
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[tokio::test]
async fn a_required_client_certificate_is_sent_or_the_attempt_fails() {
    let authority = Authority::new();
    let sink = serve(authority.certify("localhost", |_| ()), Wants::Always).await;
    let executor = executor(authority.trusted());
    let uri = uri(&sink, "localhost");
    let without = get(&executor, &uri).await;
    assert!(without.message.contains("CertificateRequired"), "{}", without.message);
    for file in ["aes256-chain.pfx", "ec-p384.pfx", "ed25519.pfx", "keytool-rsa.pfx"] {
        let report = execute(&executor, attempt(with_certificate(&uri, file, "secret"))).await;
        assert!(has_succeeded(&report), "{file}: {}", report.message);
    }
    let wrong = execute(&executor, attempt(with_certificate(&uri, "ec-p256.pfx", "canary"))).await;
    assert!(wrong.message.contains("the client certificate cannot be used"), "{}", wrong.message);
    assert!(!wrong.message.contains("canary"));
}

#[tokio::test]
async fn a_client_certificate_is_ignored_without_tls() {
    let mut sink = Sink::responding(|_| OK.into()).await;
    let request = with_certificate(&sink.uri("/"), "ec-p256.pfx", "secret");
    let report = execute(&executor(open()), attempt(request)).await;
    assert!(has_succeeded(&report), "{}", report.message);
    sink.next().await;
}

#[tokio::test]
async fn a_client_certificate_is_not_sent_to_another_origin() {
    let authority = Authority::new();
    let mut second = serve(authority.certify("localhost", |_| ()), Wants::IfYouLike).await;
    let location = uri(&second, "localhost");
    let first = Sink::responding(move |_| {
        format!("HTTP/1.1 302 Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
    })
    .await;
    let request = with_certificate(&first.uri("/"), "ec-p256.pfx", "secret");
    let report = execute(&executor(authority.trusted()), attempt(request)).await;
    assert!(has_succeeded(&report), "{}", report.message);
    assert_eq!(body(&report.message), 0);
    second.next().await;
}
