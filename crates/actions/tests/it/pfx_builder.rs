//! Builds PFX files that common programs do not write.

use aes::Aes256;
use cbc::Encryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeEncrypt, KeyIvInit};
use der::Encode;
use der::asn1::ObjectIdentifier;
use ring::pbkdf2;

pub(crate) const PASSWORD: &str = "secret";
const SALT: &[u8] = b"saltsalt";
const VECTOR: &[u8] = b"sixteen bytes iv";

/// A DER value.
pub(crate) fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut der = match (high, low) {
        (0, 0..0x80) => vec![tag, low],
        (0, _) => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    der.extend(content);
    der
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    value(0x30, parts)
}

fn octets(content: &[u8]) -> Vec<u8> {
    value(0x04, &[content])
}

fn explicit(content: &[u8]) -> Vec<u8> {
    value(0xa0, &[content])
}

fn integer(number: u64) -> Vec<u8> {
    number.to_der().unwrap()
}

fn oid(text: &str) -> Vec<u8> {
    ObjectIdentifier::new_unwrap(text).to_der().unwrap()
}

/// A file with safes and, optionally, a MAC with this iteration count.
pub(crate) fn pfx(safes: &[Vec<u8>], mac_iterations: Option<u64>) -> Vec<u8> {
    let safes: Vec<&[u8]> = safes.iter().map(Vec::as_slice).collect();
    let content = sequence(&[&oid(DATA), &explicit(&octets(&sequence(&safes)))]);
    let mac = mac_iterations.map(|iterations| {
        let algorithm = sequence(&[&oid("2.16.840.1.101.3.4.2.1"), &[5, 0]]);
        let digest = sequence(&[&algorithm, &octets(&[0; 32])]);
        sequence(&[&digest, &octets(SALT), &integer(iterations)])
    });
    sequence(&[&integer(3), &content, &mac.unwrap_or_default()])
}

const DATA: &str = "1.2.840.113549.1.7.1";

pub(crate) fn plain_safe(bags: &[Vec<u8>]) -> Vec<u8> {
    sequence(&[&oid(DATA), &explicit(&octets(&contents(bags)))])
}

pub(crate) fn contents(bags: &[Vec<u8>]) -> Vec<u8> {
    sequence(&bags.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// An encrypted safe with bags.
pub(crate) fn encrypted_safe(bags: &[Vec<u8>], iterations: u32) -> Vec<u8> {
    let ciphertext = encrypt(&contents(bags), iterations);
    safe_of_ciphertext(&pbes2(iterations.into()), &ciphertext)
}

/// An encrypted safe with an arbitrary algorithm identifier.
pub(crate) fn safe_of_ciphertext(algorithm: &[u8], ciphertext: &[u8]) -> Vec<u8> {
    let content = sequence(&[&oid(DATA), algorithm, &value(0x80, &[ciphertext])]);
    let data = sequence(&[&integer(0), &content]);
    sequence(&[&oid("1.2.840.113549.1.7.6"), &explicit(&data)])
}

/// AES-256 with PBKDF2 and HMAC-SHA-256.
pub(crate) fn pbes2(iterations: u64) -> Vec<u8> {
    pbes2_counting(&integer(iterations))
}

/// AES-256 with an iteration count in raw DER.
pub(crate) fn pbes2_counting(iterations: &[u8]) -> Vec<u8> {
    let function = sequence(&[&oid("1.2.840.113549.2.9"), &[5, 0]]);
    let parameters = sequence(&[&octets(SALT), iterations, &function]);
    let derivation = sequence(&[&oid("1.2.840.113549.1.5.12"), &parameters]);
    let cipher = sequence(&[&oid("2.16.840.1.101.3.4.1.42"), &octets(VECTOR)]);
    sequence(&[&oid("1.2.840.113549.1.5.13"), &sequence(&[&derivation, &cipher])])
}

/// 3DES with the PKCS#12 key derivation.
pub(crate) fn legacy_triple_des(iterations: u64) -> Vec<u8> {
    let parameters = sequence(&[&octets(SALT), &integer(iterations)]);
    sequence(&[&oid("1.2.840.113549.1.12.1.3"), &parameters])
}

pub(crate) fn encrypt(plaintext: &[u8], iterations: u32) -> Vec<u8> {
    let mut key = [0; 32];
    let iterations = iterations.try_into().unwrap();
    let password = PASSWORD.as_bytes();
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, SALT, password, &mut key);
    let mut buffer = plaintext.to_vec();
    buffer.resize(plaintext.len() + 16, 0);
    let cipher = Encryptor::<Aes256>::new_from_slices(&key, VECTOR).unwrap();
    cipher.encrypt_padded::<Pkcs7>(&mut buffer, plaintext.len()).unwrap().to_vec()
}

fn bag(kind: u32, content: &[u8]) -> Vec<u8> {
    sequence(&[&oid(&format!("1.2.840.113549.1.12.10.1.{kind}")), &explicit(content)])
}

pub(crate) fn key_bag(pkcs8: &[u8]) -> Vec<u8> {
    bag(1, &sequence(&[pkcs8]))
}

/// A bag with an already encrypted key.
pub(crate) fn encrypted_key_bag(encrypted_key: &[u8]) -> Vec<u8> {
    bag(2, encrypted_key)
}

/// An encrypted key with an arbitrary algorithm identifier.
pub(crate) fn key_of_ciphertext(algorithm: &[u8], ciphertext: &[u8]) -> Vec<u8> {
    encrypted_key_bag(&sequence(&[algorithm, &octets(ciphertext)]))
}

pub(crate) fn certificate_bag(der: &[u8]) -> Vec<u8> {
    let kind = oid("1.2.840.113549.1.9.22.1");
    bag(3, &sequence(&[&kind, &explicit(&octets(der))]))
}

/// A bag that contains bags.
pub(crate) fn nested_safe_bag(bags: &[Vec<u8>]) -> Vec<u8> {
    bag(6, &contents(bags))
}
