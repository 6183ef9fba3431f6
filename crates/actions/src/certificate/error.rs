//! Errors of reading a PFX file. No text contains any of the input, which is secret.

use kalends_domain::{ValidationError, ValidationErrorKind};

use super::chain::CERTIFICATES_MAX;
use super::iterations::ITERATIONS_MAX;

/// Why a PFX file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PfxError {
    #[error("the text is not a PFX (PKCS#12) file in base64")]
    NotBase64,
    #[error("the PFX file must not be larger than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    #[error("the text is not a PFX (PKCS#12) file, or the file is damaged")]
    Malformed,
    #[error(
        "the PFX file is protected in a way that is not supported; \
         supported are AES with PBKDF2, 3DES and RC2"
    )]
    Protection,
    #[error("opening the PFX file must not take more than {ITERATIONS_MAX} iterations in all")]
    TooMuchWork,
    #[error("the password does not open the PFX file")]
    Password,
    #[error("the PFX file contains no private key")]
    NoKey,
    #[error("the PFX file contains more than one private key")]
    ManyKeys,
    #[error(
        "the private key is of a kind that cannot be used; \
         supported are RSA with 2048 to 4096 bits, P-256, P-384 and Ed25519"
    )]
    KeyKind,
    #[error("the PFX file contains no certificate")]
    NoCertificate,
    #[error("the PFX file must not contain more than {CERTIFICATES_MAX} certificates")]
    ManyCertificates,
    #[error("a certificate in the PFX file cannot be read")]
    Certificate,
    #[error("no certificate in the PFX file belongs to its private key")]
    NoMatch,
}

impl From<PfxError> for ValidationError {
    fn from(error: PfxError) -> ValidationError {
        let message = format!("cannot be used: {error}");
        ValidationError::new(ValidationErrorKind::InvalidClientCertificate, message).without_value()
    }
}

impl From<der::Error> for PfxError {
    fn from(_: der::Error) -> PfxError {
        PfxError::Malformed
    }
}
