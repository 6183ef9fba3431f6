//! A private key, and how it is matched with its certificate.
//!
//! The match uses the public key, not the key identifiers that a file may attach to both: those are
//! optional and can be wrong.

use der::asn1::{BitStringRef, ObjectIdentifier, OctetStringRef};
use der::{Decode, Encode, Sequence};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RsaKeyPair,
};
use x509_cert::attr::Attributes;
use x509_cert::spki::AlgorithmIdentifierRef;
use zeroize::Zeroizing;

use super::error::PfxError;
use super::identity::PrivateKey;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A private key of a supported type.
pub(crate) struct ParsedKey {
    pkcs8: Zeroizing<Vec<u8>>,
    kind: Kind,
}

enum Kind {
    /// The key contains or implies its public key.
    WithPublic(Vec<u8>),
    /// An elliptic-curve key may omit its public key, as files from Java do.
    OnCurve(Curve),
}

#[derive(Clone, Copy)]
enum Curve {
    P256,
    P384,
}

impl ParsedKey {
    /// Parses a key in PKCS#8 DER.
    pub(crate) fn read(pkcs8: Zeroizing<Vec<u8>>) -> Result<ParsedKey, PfxError> {
        let algorithm = PrivateKeyInfo::from_der(&pkcs8)?.algorithm;
        let curve = algorithm.parameters.and_then(|any| any.decode_as::<ObjectIdentifier>().ok());
        let kind = match (algorithm.oid, curve) {
            (RSA, _) => RsaKeyPair::from_pkcs8(&pkcs8)
                .map(|pair| Kind::WithPublic(pair.public().as_ref().to_vec())),
            (ED25519, _) => Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8)
                .map(|pair| Kind::WithPublic(pair.public_key().as_ref().to_vec())),
            (EC, Some(P256)) => Ok(Kind::OnCurve(Curve::P256)),
            (EC, Some(P384)) => Ok(Kind::OnCurve(Curve::P384)),
            _ => return Err(PfxError::KeyKind),
        };
        let kind = kind.map_err(|_| PfxError::KeyKind)?;
        Ok(ParsedKey { pkcs8, kind })
    }

    /// The key in the form that rustls accepts, if `public_key`, from a certificate, belongs to it.
    pub(crate) fn matching(&self, public_key: &[u8]) -> Option<PrivateKey> {
        match &self.kind {
            Kind::WithPublic(own) => {
                (own == public_key).then(|| PrivateKey::new(self.pkcs8.clone()))
            }
            Kind::OnCurve(curve) => self.complete(*curve, public_key),
        }
    }

    /// The elliptic-curve key with its public key added.
    fn complete(&self, curve: Curve, public_key: &[u8]) -> Option<PrivateKey> {
        let info = PrivateKeyInfo::from_der(&self.pkcs8).ok()?;
        let key = CurveKey::from_der(info.key.as_bytes()).ok()?;
        let secret = pad(key.secret.as_bytes(), curve.secret_length())?;
        EcdsaKeyPair::from_private_key_and_public_key(
            curve.algorithm(),
            &secret,
            public_key,
            &SystemRandom::new(),
        )
        .ok()?;
        let key = CurveKey {
            version: 1,
            secret: OctetStringRef::new(&secret).ok()?,
            curve: None,
            public_key: Some(BitStringRef::from_bytes(public_key).ok()?),
        };
        let key = Zeroizing::new(key.to_der().ok()?);
        let info = PrivateKeyInfo {
            version: 0,
            algorithm: info.algorithm,
            key: OctetStringRef::new(&key).ok()?,
            attributes: None,
            public_key: None,
        };
        Some(PrivateKey::new(Zeroizing::new(info.to_der().ok()?)))
    }
}

impl Curve {
    fn algorithm(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Curve::P256 => &ECDSA_P256_SHA256_ASN1_SIGNING,
            Curve::P384 => &ECDSA_P384_SHA384_ASN1_SIGNING,
        }
    }

    fn secret_length(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
        }
    }
}

/// Pads with leading zeros, which some programs omit.
fn pad(secret: &[u8], length: usize) -> Option<Zeroizing<Vec<u8>>> {
    let zeros = length.checked_sub(secret.len())?;
    let mut padded = Zeroizing::new(Vec::with_capacity(length));
    padded.resize(zeros, 0);
    padded.extend_from_slice(secret);
    Some(padded)
}

#[derive(Sequence)]
struct PrivateKeyInfo<'a> {
    version: u8,
    algorithm: AlgorithmIdentifierRef<'a>,
    key: &'a OctetStringRef,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT", optional = "true")]
    attributes: Option<Attributes>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    public_key: Option<BitStringRef<'a>>,
}

#[derive(Sequence)]
struct CurveKey<'a> {
    version: u8,
    secret: &'a OctetStringRef,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    curve: Option<ObjectIdentifier>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    public_key: Option<BitStringRef<'a>>,
}
