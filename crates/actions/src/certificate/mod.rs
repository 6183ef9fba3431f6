//! Client certificates: from a PFX file (PKCS#12) and its password to an identity for TLS.
//!
//! [`read_pfx`] validates the file when a job is defined; the same code reads it when the job runs.
//! It is pure and CPU-bound: at most [`ITERATIONS_MAX`] iterations of key derivation, some tenths of
//! a second, so call it through [`PfxLimit`].
//!
//! File and password come from an untrusted user, who also controls the encrypted parts. Steps:
//!
//! 1. `container` parses everything that is not encrypted. No key is derived yet.
//! 2. `iterations` charges the MAC, every encrypted part and every encrypted key seen so far to one
//!    budget, and refuses a file that exceeds it.
//! 3. `mac` verifies the password; `protection` decrypts the encrypted parts.
//! 4. Encrypted keys inside these parts are charged to the same budget before any is decrypted.
//!    There are at most two levels of encryption, part and key: the grammar has no third, and nested
//!    safes, which it allows, are skipped.
//! 5. `key` and `chain` find the certificate of the key and its chain of issuers.
//!
//! Refused: scrypt, RC4, MD5 and public-key protection; BER where DER is required; more than one
//! private key; keys that rustls cannot sign with. Trust and expiry are not checked: the target
//! does that, and [`CertificateFacts`](kalends_domain::CertificateFacts) show the expiry date.

mod chain;
mod container;
mod derivation;
mod error;
mod identity;
mod iterations;
mod key;
mod mac;
mod pfx_limit;
mod protection;
mod read;
mod subject;

pub use chain::CERTIFICATES_MAX;
pub(crate) use error::PfxError;
pub use identity::{ClientIdentity, PrivateKey};
pub use iterations::ITERATIONS_MAX;
pub use pfx_limit::PfxLimit;
pub(crate) use read::open_pfx;
pub use read::read_pfx;
