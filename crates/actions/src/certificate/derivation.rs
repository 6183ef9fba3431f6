//! Key derivation from a password: the legacy PKCS#12 scheme (RFC 7292, appendix B) and PBKDF2.

use kalends_domain::Secret;
use ring::{digest, pbkdf2};
use zeroize::Zeroizing;

use super::iterations::Iterations;

/// The purpose of a key derived by PKCS#12, as its diversifier byte.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Key = 1,
    InitialVector = 2,
    Mac = 3,
}

/// A password in the encodings of the two schemes.
pub(crate) struct Password {
    utf8: Secret,
    /// UTF-16, big-endian, zero-terminated.
    utf16: Zeroizing<Vec<u8>>,
}

impl Password {
    pub(crate) fn new(text: &Secret) -> Password {
        let units = || text.reveal().encode_utf16().chain([0]);
        // Allocated at full size: a growing buffer leaves copies in freed memory.
        let mut utf16 = Zeroizing::new(Vec::with_capacity(units().count() * 2));
        utf16.extend(units().flat_map(u16::to_be_bytes));
        Password { utf8: text.clone(), utf16 }
    }
}

/// Derives `length` bytes with PBKDF2.
pub(crate) fn derive_pbkdf2(
    algorithm: pbkdf2::Algorithm,
    password: &Password,
    salt: &[u8],
    iterations: Iterations,
    length: usize,
) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(vec![0; length]);
    let password = password.utf8.reveal().as_bytes();
    pbkdf2::derive(algorithm, iterations.get(), salt, password, &mut key);
    key
}

/// Derives `length` bytes with the PKCS#12 scheme. Each output block costs `iterations` hashes.
pub(crate) fn derive_pkcs12(
    hash: &'static digest::Algorithm,
    purpose: Purpose,
    password: &Password,
    salt: &[u8],
    iterations: Iterations,
    length: usize,
) -> Zeroizing<Vec<u8>> {
    let block_length = hash.block_len();
    let mut input = whole_blocks(&[salt, &password.utf16], block_length);
    let diversifier = vec![purpose as u8; block_length];
    let mut output = Zeroizing::new(Vec::with_capacity(length + hash.output_len()));
    loop {
        let mut first = digest::Context::new(hash);
        first.update(&diversifier);
        first.update(&input);
        let mut block = first.finish();
        for _ in 1..iterations.get().get() {
            block = digest::digest(hash, block.as_ref());
        }
        output.extend_from_slice(block.as_ref());
        if output.len() >= length {
            output.truncate(length);
            return output;
        }
        add_to_blocks(&mut input, block.as_ref(), block_length);
    }
}

/// Repeats each part to a multiple of the block length and concatenates them.
fn whole_blocks(parts: &[&[u8]], block_length: usize) -> Zeroizing<Vec<u8>> {
    let length = |part: &[u8]| part.len().next_multiple_of(block_length);
    let total = parts.iter().map(|part| length(part)).sum();
    let mut blocks = Zeroizing::new(Vec::with_capacity(total));
    for part in parts {
        blocks.extend(part.iter().cycle().take(length(part)));
    }
    blocks
}

/// Adds `addend`, repeated to a block, plus one to each block, modulo the block size.
fn add_to_blocks(blocks: &mut [u8], addend: &[u8], block_length: usize) {
    let addend: Vec<u8> = addend.iter().copied().cycle().take(block_length).collect();
    for block in blocks.chunks_exact_mut(block_length) {
        let mut carry = 1_u16;
        for (byte, add) in block.iter_mut().zip(&addend).rev() {
            let [high, low] = (u16::from(*byte) + u16::from(*add) + carry).to_be_bytes();
            *byte = low;
            carry = u16::from(high);
        }
    }
}
