//! Decryption of the encrypted parts of a PFX file.

use aes::{Aes128, Aes192, Aes256};
use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, KeyInit, KeyIvInit};
use der::Sequence;
use der::asn1::{AnyRef, ObjectIdentifier, OctetStringRef};
use des::TdesEde3;
use rc2::Rc2;
use ring::{digest, pbkdf2};
use x509_cert::spki::AlgorithmIdentifierRef;
use zeroize::Zeroizing;

use super::derivation::{Password, Purpose, derive_pbkdf2, derive_pkcs12};
use super::error::PfxError;
use super::iterations::Iterations;

const PBE_SHA1_3DES: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.1.3");
const PBE_SHA1_RC2_128: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.1.5");
const PBE_SHA1_RC2_40: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.1.6");
const PBES2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.5.13");
const PBKDF2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.5.12");
const HMAC_SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.2.7");
const HMAC_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.2.9");
const HMAC_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.2.10");
const HMAC_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.2.11");
const DES_EDE3_CBC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.3.7");
const AES_128_CBC: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.1.2");
const AES_192_CBC: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.1.22");
const AES_256_CBC: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.1.42");

/// Legacy schemes derive the initialization vector, one block of 8 bytes, from the password too.
const LEGACY_IV_LENGTH: usize = 8;

/// A cipher and its key derivation.
pub(crate) struct Protection<'a> {
    /// Must be charged to the budget before [`Protection::decrypt`].
    pub(crate) iterations: Iterations,
    salt: &'a [u8],
    cipher: Cipher,
    derivation: Derivation<'a>,
}

enum Derivation<'a> {
    Pkcs12,
    Pbkdf2 { algorithm: pbkdf2::Algorithm, initial_vector: &'a [u8] },
}

/// Supported ciphers, all in CBC mode.
#[derive(Clone, Copy)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
    TripleDes,
    Rc2 { key_length: usize },
}

impl<'a> Protection<'a> {
    pub(crate) fn read(algorithm: &AlgorithmIdentifierRef<'a>) -> Result<Protection<'a>, PfxError> {
        let cipher = match algorithm.oid {
            PBES2 => return Protection::read_pbes2(parameters(algorithm)?.decode_as()?),
            PBE_SHA1_3DES => Cipher::TripleDes,
            PBE_SHA1_RC2_128 => Cipher::Rc2 { key_length: 16 },
            PBE_SHA1_RC2_40 => Cipher::Rc2 { key_length: 5 },
            _ => return Err(PfxError::Protection),
        };
        let legacy: LegacyParameters<'a> = parameters(algorithm)?.decode_as()?;
        let iterations = Iterations::read(legacy.iterations)?;
        Ok(Protection {
            iterations,
            salt: legacy.salt.as_bytes(),
            cipher,
            derivation: Derivation::Pkcs12,
        })
    }

    fn read_pbes2(scheme: Pbes2Parameters<'a>) -> Result<Protection<'a>, PfxError> {
        if scheme.derivation.oid != PBKDF2 {
            return Err(PfxError::Protection);
        }
        let derivation: Pbkdf2Parameters<'a> = parameters(&scheme.derivation)?.decode_as()?;
        let iterations = Iterations::read(derivation.iterations)?;
        let algorithm = match derivation.function.map_or(HMAC_SHA1, |function| function.oid) {
            HMAC_SHA1 => pbkdf2::PBKDF2_HMAC_SHA1,
            HMAC_SHA256 => pbkdf2::PBKDF2_HMAC_SHA256,
            HMAC_SHA384 => pbkdf2::PBKDF2_HMAC_SHA384,
            HMAC_SHA512 => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => return Err(PfxError::Protection),
        };
        let cipher = match scheme.encryption.oid {
            AES_128_CBC => Cipher::Aes128,
            AES_192_CBC => Cipher::Aes192,
            AES_256_CBC => Cipher::Aes256,
            DES_EDE3_CBC => Cipher::TripleDes,
            _ => return Err(PfxError::Protection),
        };
        if derivation.key_length.is_some_and(|length| usize::from(length) != cipher.key_length()) {
            return Err(PfxError::Malformed);
        }
        let initial_vector: &OctetStringRef = parameters(&scheme.encryption)?.decode_as()?;
        Ok(Protection {
            iterations,
            salt: derivation.salt.as_bytes(),
            cipher,
            derivation: Derivation::Pbkdf2 { algorithm, initial_vector: initial_vector.as_bytes() },
        })
    }

    /// Decrypts. Only invalid padding reveals a wrong password here.
    pub(crate) fn decrypt(
        &self,
        password: &Password,
        ciphertext: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, PfxError> {
        let (iterations, salt) = (self.iterations, self.salt);
        let key_length = self.cipher.key_length();
        match &self.derivation {
            Derivation::Pbkdf2 { algorithm, initial_vector } => {
                let key = derive_pbkdf2(*algorithm, password, salt, iterations, key_length);
                self.cipher.decrypt(&key, initial_vector, ciphertext)
            }
            Derivation::Pkcs12 => {
                let derive = |purpose, length| {
                    let hash = &digest::SHA1_FOR_LEGACY_USE_ONLY;
                    derive_pkcs12(hash, purpose, password, salt, iterations, length)
                };
                let key = derive(Purpose::Key, key_length);
                let initial_vector = derive(Purpose::InitialVector, LEGACY_IV_LENGTH);
                self.cipher.decrypt(&key, &initial_vector, ciphertext)
            }
        }
    }
}

impl Cipher {
    fn key_length(self) -> usize {
        match self {
            Cipher::Aes128 => 16,
            Cipher::Aes192 | Cipher::TripleDes => 24,
            Cipher::Aes256 => 32,
            Cipher::Rc2 { key_length } => key_length,
        }
    }

    fn decrypt(
        self,
        key: &[u8],
        initial_vector: &[u8],
        ciphertext: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, PfxError> {
        let decrypt = match self {
            Cipher::Aes128 => decrypt_cbc::<Aes128>,
            Cipher::Aes192 => decrypt_cbc::<Aes192>,
            Cipher::Aes256 => decrypt_cbc::<Aes256>,
            Cipher::TripleDes => decrypt_cbc::<TdesEde3>,
            Cipher::Rc2 { .. } => decrypt_cbc::<Rc2>,
        };
        decrypt(key, initial_vector, ciphertext)
    }
}

fn decrypt_cbc<C: BlockCipherDecrypt + KeyInit>(
    key: &[u8],
    initial_vector: &[u8],
    ciphertext: &[u8],
) -> Result<Zeroizing<Vec<u8>>, PfxError> {
    let cipher = Decryptor::<C>::new_from_slices(key, initial_vector);
    let cipher = cipher.map_err(|_| PfxError::Malformed)?;
    let mut buffer = Zeroizing::new(ciphertext.to_vec());
    let plaintext = cipher.decrypt_padded::<Pkcs7>(&mut buffer);
    let length = plaintext.map_err(|_| PfxError::Password)?.len();
    buffer.truncate(length);
    Ok(buffer)
}

/// The parameters, which all supported algorithms require.
fn parameters<'a>(algorithm: &AlgorithmIdentifierRef<'a>) -> Result<AnyRef<'a>, PfxError> {
    algorithm.parameters.ok_or(PfxError::Malformed)
}

#[derive(Sequence)]
struct LegacyParameters<'a> {
    salt: &'a OctetStringRef,
    iterations: u64,
}

#[derive(Sequence)]
struct Pbes2Parameters<'a> {
    derivation: AlgorithmIdentifierRef<'a>,
    encryption: AlgorithmIdentifierRef<'a>,
}

#[derive(Sequence)]
struct Pbkdf2Parameters<'a> {
    salt: &'a OctetStringRef,
    iterations: u64,
    key_length: Option<u16>,
    function: Option<AlgorithmIdentifierRef<'a>>,
}
