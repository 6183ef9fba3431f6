//! The MAC of a PFX file, keyed with its password. Only the MAC distinguishes a wrong password from
//! a damaged file; some programs write none.

use der::Sequence;
use der::asn1::{ObjectIdentifier, OctetStringRef};
use ring::{digest, hmac};
use x509_cert::spki::AlgorithmIdentifierRef;

use super::derivation::{Password, Purpose, derive_pkcs12};
use super::error::PfxError;
use super::iterations::Iterations;

const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");

pub(crate) struct Mac<'a> {
    pub(crate) iterations: Iterations,
    algorithm: hmac::Algorithm,
    salt: &'a [u8],
    tag: &'a [u8],
    content: &'a [u8],
}

impl<'a> Mac<'a> {
    /// Parses the MAC data of a file with the authenticated `content`.
    pub(crate) fn read(mac: &MacData<'a>, content: &'a [u8]) -> Result<Mac<'a>, PfxError> {
        let algorithm = match mac.mac.algorithm.oid {
            SHA1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            SHA256 => hmac::HMAC_SHA256,
            SHA384 => hmac::HMAC_SHA384,
            SHA512 => hmac::HMAC_SHA512,
            _ => return Err(PfxError::Protection),
        };
        Ok(Mac {
            iterations: Iterations::read(mac.iterations)?,
            algorithm,
            salt: mac.salt.as_bytes(),
            tag: mac.mac.digest.as_bytes(),
            content,
        })
    }

    /// Verifies the password against the MAC.
    pub(crate) fn verify(&self, password: &Password) -> Result<(), PfxError> {
        let hash: &'static digest::Algorithm = self.algorithm.digest_algorithm();
        let length = hash.output_len();
        let key = derive_pkcs12(hash, Purpose::Mac, password, self.salt, self.iterations, length);
        let key = hmac::Key::new(self.algorithm, &key);
        hmac::verify(&key, self.content, self.tag).map_err(|_| PfxError::Password)
    }
}

#[derive(Sequence)]
pub(crate) struct MacData<'a> {
    mac: DigestInfo<'a>,
    salt: &'a OctetStringRef,
    #[asn1(default = "one")]
    iterations: u64,
}

#[derive(Sequence)]
struct DigestInfo<'a> {
    algorithm: AlgorithmIdentifierRef<'a>,
    digest: &'a OctetStringRef,
}

/// Default of the iteration count.
fn one() -> u64 {
    1
}
