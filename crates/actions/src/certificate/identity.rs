//! What a PFX file is read into.

use std::fmt;

use kalends_domain::CertificateFacts;
use zeroize::Zeroizing;

/// A certificate, those above it, and the key to use them with.
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

    /// What may be shown of it.
    pub fn facts(&self) -> &CertificateFacts {
        &self.facts
    }

    /// Certificates in DER: the client's own first, then its issuer, and so on.
    pub fn chain(&self) -> &[Vec<u8>] {
        &self.chain
    }

    /// The key of the first certificate.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }
}

/// A private key in PKCS#8 DER, which cannot be printed and is wiped when it goes.
#[derive(Clone)]
pub struct PrivateKey(Zeroizing<Vec<u8>>);

impl PrivateKey {
    pub(crate) fn new(pkcs8: Zeroizing<Vec<u8>>) -> PrivateKey {
        PrivateKey(pkcs8)
    }

    /// The key itself. Each use is a place to look at when keys leak.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
