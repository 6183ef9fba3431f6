//! PFX files crafted to exhaust resources. The key derivation they request would take hours: these
//! tests end only if it is refused.

use crate::pfx_builder::{
    PASSWORD, certificate_bag, contents, encrypt, encrypted_key_bag, encrypted_safe,
    key_of_ciphertext, legacy_triple_des, nested_safe_bag, pbes2, pbes2_counting, pfx, plain_safe,
    safe_of_ciphertext, value,
};
use crate::{data, read, refusal_message};

const TOO_MUCH_WORK: &str = "opening the PFX file must not take more than 600000 iterations in all";
const MALFORMED: &str = "the text is not a PFX (PKCS#12) file, or the file is damaged";

/// Excessive iteration counts, up to the largest integer.
const BOMBS: [u64; 4] = [600_001, 1 << 31, 1 << 32, u64::MAX];

fn check(file: &[u8], message: &str) {
    assert_eq!(refusal_message(read(file, PASSWORD)), message);
}

fn own_bags() -> Vec<Vec<u8>> {
    vec![certificate_bag(&data("plain.der")), encrypted_key_bag(&data("key-hmac-sha512.der"))]
}

#[test]
fn the_builder_creates_readable_files() {
    assert!(read(&pfx(&[plain_safe(&own_bags())], None), PASSWORD).is_ok());
}

#[test]
fn excessive_iterations_of_the_mac_are_refused() {
    for iterations in BOMBS {
        check(&pfx(&[plain_safe(&own_bags())], Some(iterations)), TOO_MUCH_WORK);
    }
}

#[test]
fn excessive_iterations_of_an_encrypted_part_are_refused() {
    for iterations in BOMBS {
        for algorithm in [pbes2(iterations), legacy_triple_des(iterations)] {
            let bomb = safe_of_ciphertext(&algorithm, &[0; 16]);
            check(&pfx(&[plain_safe(&own_bags()), bomb], None), TOO_MUCH_WORK);
        }
    }
}

#[test]
fn excessive_iterations_of_a_key_are_refused() {
    for iterations in BOMBS {
        for algorithm in [pbes2(iterations), legacy_triple_des(iterations)] {
            let bomb = key_of_ciphertext(&algorithm, &[0; 16]);
            check(&pfx(&[plain_safe(&[bomb])], None), TOO_MUCH_WORK);
        }
    }
}

#[test]
fn an_iteration_count_beyond_64_bits_is_refused() {
    let algorithm = pbes2_counting(&value(0x02, &[&[0x7f; 4_000]]));
    check(&pfx(&[safe_of_ciphertext(&algorithm, &[0; 16])], None), MALFORMED);
}

#[test]
fn a_key_inside_an_encrypted_part_is_decrypted_within_the_budget() {
    assert!(read(&pfx(&[encrypted_safe(&own_bags(), 1)], None), PASSWORD).is_ok());
}

/// The inner count is visible only after the outer part is decrypted.
#[test]
fn excessive_iterations_inside_an_encrypted_part_are_refused() {
    for iterations in BOMBS {
        let bomb = key_of_ciphertext(&pbes2(iterations), &[0; 16]);
        check(&pfx(&[encrypted_safe(&[bomb], 1)], None), TOO_MUCH_WORK);
    }
}

/// Each key alone is within the budget; all of them would take a minute.
#[test]
fn keys_inside_encrypted_parts_share_the_budget() {
    let keys: Vec<_> = (0..18).map(|_| key_of_ciphertext(&pbes2(200_000), &[0; 16])).collect();
    let parts: Vec<_> = (0..4).map(|_| encrypted_safe(&keys, 1)).collect();
    check(&pfx(&parts, None), TOO_MUCH_WORK);
}

/// The most work that a file can cause.
#[test]
fn encrypted_parts_are_decrypted_up_to_the_budget() {
    let parts: Vec<_> = (0..30).map(|_| encrypted_safe(&[], 20_000)).collect();
    check(&pfx(&parts, None), "the PFX file contains no private key");
    let one_more = [parts, vec![encrypted_safe(&[], 1)]].concat();
    check(&pfx(&one_more, None), TOO_MUCH_WORK);
}

#[test]
fn nested_safes_are_skipped() {
    let mut bags = own_bags();
    for _ in 0..200 {
        bags = vec![nested_safe_bag(&bags)];
    }
    check(&pfx(&[plain_safe(&bags)], None), "the PFX file contains no private key");
    let bomb = key_of_ciphertext(&pbes2(1 << 31), &[0; 16]);
    let hidden = encrypted_safe(&[nested_safe_bag(&[bomb])], 1);
    check(&pfx(&[hidden], None), "the PFX file contains no private key");
}

/// Nested values, at the maximum depth of a file.
fn deep(tag: u8) -> Vec<u8> {
    let mut der = Vec::new();
    while der.len() < 10_000 {
        der = value(tag, &[&der]);
    }
    der
}

#[test]
fn deep_nesting_is_refused() {
    for tag in [0x30, 0x31, 0x24, 0xa0] {
        let deep = deep(tag);
        check(&deep, MALFORMED);
        check(&pfx(std::slice::from_ref(&deep), None), MALFORMED);
        let bag = certificate_bag(&deep);
        let bags = [bag, encrypted_key_bag(&data("key-hmac-sha512.der"))];
        let file = pfx(&[plain_safe(&bags)], None);
        check(&file, "a certificate in the PFX file cannot be read");
    }
}

#[test]
fn a_file_truncated_anywhere_is_refused() {
    for file in ["unencrypted-no-mac.pfx", "ec-p256.pfx"] {
        let file = data(file);
        for length in 0..file.len() {
            refusal_message(read(&file[..length], PASSWORD));
        }
    }
}

/// The outer lengths are consistent, so only inner values are truncated.
#[test]
fn parts_truncated_anywhere_are_refused() {
    let bags = contents(&own_bags());
    for length in (0..bags.len()).step_by(3) {
        let ciphertext = encrypt(&bags[..length], 1);
        refusal_message(read(&pfx(&[safe_of_ciphertext(&pbes2(1), &ciphertext)], None), PASSWORD));
    }
}
