//! Which certificate is the client's own, and which stand above it.

use der::Decode;
use x509_cert::certificate::{CertificateInner, Raw};

use super::identity::PrivateKey;
use super::key::SigningKey;
use super::problem::Problem;

/// Certificates in a file: the client's own, its issuers up to the root, and one to spare.
pub const CERTIFICATES_MAX: usize = 5;

/// A certificate that could be read. Serial numbers that break the rules do no harm here.
pub(crate) struct Certificate<'a> {
    pub(crate) der: &'a [u8],
    pub(crate) fields: CertificateInner<Raw>,
}

/// The certificates of a file, each read.
pub(crate) fn read_certificates<'a>(ders: &[&'a [u8]]) -> Result<Vec<Certificate<'a>>, Problem> {
    match ders.len() {
        0 => Err(Problem::NoCertificate),
        1..=CERTIFICATES_MAX => ders.iter().map(|der| Certificate::read(der)).collect(),
        _ => Err(Problem::ManyCertificates),
    }
}

/// The chain from the key's own certificate upwards, and the key. Certificates that do not belong
/// to it are left out.
pub(crate) fn find_chain<'a>(
    mut certificates: Vec<Certificate<'a>>,
    key: &SigningKey,
) -> Result<(Vec<Certificate<'a>>, PrivateKey), Problem> {
    let own = certificates.iter().enumerate().find_map(|(index, certificate)| {
        let key = key.fit(certificate.public_key())?;
        Some((index, key))
    });
    let (index, key) = own.ok_or(Problem::NoMatch)?;
    let mut last = certificates.swap_remove(index);
    let mut chain = Vec::new();
    // Each round takes a certificate away, so a circle of issuers ends too.
    while let Some(index) = certificates.iter().position(|above| last.is_issued_by(above)) {
        let above = certificates.swap_remove(index);
        chain.push(std::mem::replace(&mut last, above));
    }
    chain.push(last);
    Ok((chain, key))
}

impl<'a> Certificate<'a> {
    fn read(der: &'a [u8]) -> Result<Certificate<'a>, Problem> {
        let fields = CertificateInner::from_der(der).map_err(|_| Problem::Certificate)?;
        Ok(Certificate { der, fields })
    }

    fn public_key(&self) -> &[u8] {
        let info = self.fields.tbs_certificate().subject_public_key_info();
        info.subject_public_key.raw_bytes()
    }

    fn is_issued_by(&self, above: &Certificate<'_>) -> bool {
        let (own, above) = (self.fields.tbs_certificate(), above.fields.tbs_certificate());
        own.issuer() != own.subject() && own.issuer() == above.subject()
    }
}
