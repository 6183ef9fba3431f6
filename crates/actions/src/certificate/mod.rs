//! Client certificates: from a PFX file (PKCS#12) and its password to an identity for TLS.
//!
//! [`read_pfx`] serves twice: when a job is defined, to refuse a file that could never be used and
//! to show what it holds, and when the job runs. It is pure and blocks: at most
//! [`ITERATIONS_MAX`] iterations of key derivation, some tenths of a second, so it belongs on a
//! thread for blocking work.
//!
//! The file comes from a stranger together with its password, so even the encrypted parts are
//! theirs to shape. The walk:
//!
//! 1. `container` reads all that is not encrypted. Nothing is derived yet.
//! 2. `work` takes the iterations of the MAC, of every encrypted part and of every encrypted key
//!    seen so far out of one budget, and refuses the file when they are more than it holds.
//! 3. `mac` checks the password; `protection` opens the encrypted parts.
//! 4. The keys found inside those are taken out of the same budget before any of them is opened.
//!    Parts are encrypted at most twice, part and key: the grammar has no third level, and parts
//!    that it allows to be nested (safes in safes) are passed over unread.
//! 5. `key` and `chain` find the certificate of the key and the way to its issuer.
//!
//! It refuses: scrypt, RC4, MD5 and public-key protection; BER where DER is due; more than one
//! private key; keys that our TLS cannot sign with. It does not judge whether a certificate is
//! trusted, or expired: who is asked to accept it does that, and the facts show the date.

mod chain;
mod container;
mod derivation;
mod identity;
mod key;
mod mac;
mod problem;
mod protection;
mod read;
mod subject;
mod work;

pub use chain::CERTIFICATES_MAX;
pub use identity::{ClientIdentity, PrivateKey};
pub use read::read_pfx;
pub use work::ITERATIONS_MAX;
