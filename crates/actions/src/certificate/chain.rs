//! Finds the certificate of the private key and the chain of its issuers.

use der::Decode;
use x509_cert::certificate::{CertificateInner, Raw};

use super::error::PfxError;
use super::identity::PrivateKey;
use super::key::ParsedKey;

/// Certificates in a file: the client's own, its issuers up to the root, and one in reserve.
pub const CERTIFICATES_MAX: usize = 5;

/// A parsed certificate. Serial numbers are not validated.
pub(crate) struct Certificate<'a> {
    pub(crate) der: &'a [u8],
    pub(crate) fields: CertificateInner<Raw>,
}

/// Parses the certificates of a file.
pub(crate) fn read_certificates<'a>(ders: &[&'a [u8]]) -> Result<Vec<Certificate<'a>>, PfxError> {
    match ders.len() {
        0 => Err(PfxError::NoCertificate),
        1..=CERTIFICATES_MAX => ders.iter().map(|der| Certificate::read(der)).collect(),
        _ => Err(PfxError::ManyCertificates),
    }
}

/// The chain that begins with the key's certificate, and the key. Other certificates are ignored.
pub(crate) fn find_chain<'a>(
    mut certificates: Vec<Certificate<'a>>,
    key: &ParsedKey,
) -> Result<(Vec<Certificate<'a>>, PrivateKey), PfxError> {
    let own = certificates.iter().enumerate().find_map(|(index, certificate)| {
        let key = key.matching(certificate.public_key())?;
        Some((index, key))
    });
    let (index, key) = own.ok_or(PfxError::NoMatch)?;
    let mut last = certificates.swap_remove(index);
    let mut chain = Vec::new();
    // Terminates for circular issuers too: each iteration removes a certificate.
    while let Some(index) = certificates.iter().position(|issuer| last.is_issued_by(issuer)) {
        let issuer = certificates.swap_remove(index);
        chain.push(std::mem::replace(&mut last, issuer));
    }
    chain.push(last);
    Ok((chain, key))
}

impl<'a> Certificate<'a> {
    fn read(der: &'a [u8]) -> Result<Certificate<'a>, PfxError> {
        let fields = CertificateInner::from_der(der).map_err(|_| PfxError::Certificate)?;
        Ok(Certificate { der, fields })
    }

    fn public_key(&self) -> &[u8] {
        let info = self.fields.tbs_certificate().subject_public_key_info();
        info.subject_public_key.raw_bytes()
    }

    fn is_issued_by(&self, issuer: &Certificate<'_>) -> bool {
        let (own, issuer) = (self.fields.tbs_certificate(), issuer.fields.tbs_certificate());
        own.issuer() != own.subject() && own.issuer() == issuer.subject()
    }
}
