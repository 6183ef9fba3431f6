//! The client identity in a PFX file.

use std::fmt;

use kalends_domain::CertificateFacts;
use zeroize::Zeroizing;

/// A certificate chain and the private key of its first certificate.
#[derive(Debug)]
pub struct ClientIdentity {
    facts: CertificateFacts,
    chain: Vec<Vec<u8>>,
    key: PrivateKey,
}

impl ClientIdentity {
    pub(crate) fn new(facts: CertificateFacts, chain: Vec<Vec<u8>>, key: PrivateKey) -> Self {
        ClientIdentity { facts, chain, key }
    }

    /// The public facts that API responses show.
    pub fn facts(&self) -> &CertificateFacts {
        &self.facts
    }

    /// Certificates in DER: the client's own first, each followed by its issuer.
    pub fn chain(&self) -> &[Vec<u8>] {
        &self.chain
    }

    /// The private key of the first certificate.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }
}

/// A private key in PKCS#8 DER. It cannot be printed and is zeroized on drop.
#[derive(Clone)]
pub struct PrivateKey(Zeroizing<Vec<u8>>);

impl PrivateKey {
    pub(crate) fn new(pkcs8: Zeroizing<Vec<u8>>) -> PrivateKey {
        PrivateKey(pkcs8)
    }

    /// Exposes the key. Audit every caller for leaks.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
