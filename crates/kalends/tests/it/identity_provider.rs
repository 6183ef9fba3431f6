//! A local OpenID Connect provider with generated keys.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value, json};

/// A key with which tokens are signed.
pub(crate) enum SigningKey {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
}

impl SigningKey {
    /// Generates an RSA key. Prints SKIPPED and returns `None` without openssl.
    pub(crate) fn rsa() -> Option<SigningKey> {
        let arguments = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
        let generated = Command::new("openssl").args(arguments).args(["-outform", "DER"]).output();
        let Ok(generated) = generated else {
            eprintln!("SKIPPED: the package openssl is not installed");
            return None;
        };
        assert!(generated.status.success());
        // Some versions wrap the key, others do not.
        let key = RsaKeyPair::from_pkcs8(&generated.stdout);
        Some(SigningKey::Rsa(key.or_else(|_| RsaKeyPair::from_der(&generated.stdout)).unwrap()))
    }

    pub(crate) fn p256() -> SigningKey {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let generated = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        SigningKey::P256(EcdsaKeyPair::from_pkcs8(algorithm, generated.as_ref(), &random).unwrap())
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            SigningKey::Rsa(_) => "RS256",
            SigningKey::P256(_) => "ES256",
        }
    }

    /// The public key as a JWK.
    pub(crate) fn public(&self, name: &str) -> Value {
        match self {
            SigningKey::Rsa(key) => {
                let key: RsaPublicKeyComponents<Vec<u8>> = key.public().into();
                let (n, e) = (encode(key.n), encode(key.e));
                json!({"kty": "RSA", "use": "sig", "kid": name, "n": n, "e": e})
            }
            SigningKey::P256(key) => {
                let point = key.public_key().as_ref();
                let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": name, "x": x, "y": y})
            }
        }
    }

    /// A signed JWT with this header and these claims.
    pub(crate) fn sign(&self, head: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(head.to_string()), encode(claims.to_string()));
        let signature = match self {
            SigningKey::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let random = SystemRandom::new();
                key.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
                signature
            }
            SigningKey::P256(key) => {
                key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec()
            }
        };
        format!("{signed}.{}", encode(signature))
    }
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A web server with the discovery document and the keys.
pub(crate) struct Provider {
    pub(crate) issuer: String,
    /// Number of requests for the keys.
    pub(crate) key_requests: Arc<AtomicUsize>,
}

impl Provider {
    /// Serves the keys at `/keys` and the discovery document at its well-known path.
    pub(crate) fn start(keys: &[Value]) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://{}/tenant/v2.0", listener.local_addr().unwrap());
        let key_requests = Arc::new(AtomicUsize::new(0));
        let keys = json!({"keys": keys}).to_string();
        let jwks_uri = issuer.replace("/tenant/v2.0", "/keys");
        let discovery = json!({"issuer": issuer, "jwks_uri": jwks_uri}).to_string();
        let count = Arc::clone(&key_requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let body = match request.split(' ').nth(1) {
                    Some("/keys") => {
                        count.fetch_add(1, Ordering::SeqCst);
                        Some(&keys)
                    }
                    Some("/tenant/v2.0/.well-known/openid-configuration") => Some(&discovery),
                    _ => None,
                };
                let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
                let body = body.cloned().unwrap_or_default();
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Provider { issuer, key_requests }
    }
}
