//! From a password to keys: the derivation of PKCS#12 itself (RFC 7292, appendix B), which is old,
//! and PBKDF2, which came later.

use kalends_domain::Secret;
use ring::{digest, pbkdf2};
use zeroize::Zeroizing;

use super::work::Iterations;

/// What a key derived by PKCS#12 is for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Key = 1,
    InitialVector = 2,
    Mac = 3,
}

/// A password in the two forms that derivations want.
pub(crate) struct Password {
    utf8: Secret,
    /// UTF-16, big-endian, with a zero at its end.
    utf16: Zeroizing<Vec<u8>>,
}

impl Password {
    pub(crate) fn new(text: &Secret) -> Password {
        let units = || text.reveal().encode_utf16().chain([0]);
        // Room for all of it at once: a buffer that grows leaves copies behind.
        let mut utf16 = Zeroizing::new(Vec::with_capacity(units().count() * 2));
        utf16.extend(units().flat_map(u16::to_be_bytes));
        Password { utf8: text.clone(), utf16 }
    }
}

/// `length` bytes by PBKDF2.
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

/// `length` bytes by the derivation of PKCS#12. One block of output costs `iterations` hashes.
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

/// Each part repeated until whole blocks are full, one after the other; none of an empty part.
fn whole_blocks(parts: &[&[u8]], block_length: usize) -> Zeroizing<Vec<u8>> {
    let length = |part: &[u8]| part.len().next_multiple_of(block_length);
    let total = parts.iter().map(|part| length(part)).sum();
    let mut blocks = Zeroizing::new(Vec::with_capacity(total));
    for part in parts {
        blocks.extend(part.iter().cycle().take(length(part)));
    }
    blocks
}

/// Adds `addend`, repeated to a block, and one to each block, as numbers with the carry lost.
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
