//! Well-formed PFX files that cannot be used, and input that is no PFX file.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kalends_actions::certificate::read_pfx;
use kalends_domain::{Limits, Secret};

use crate::pfx_builder::{certificate_bag, encrypted_key_bag, key_bag, pfx, plain_safe};
use crate::{data, read, read_text, refusal_message};

const NOT_BASE64: &str = "the text is not a PFX (PKCS#12) file in base64";
const MALFORMED: &str = "the text is not a PFX (PKCS#12) file, or the file is damaged";
const PASSWORD: &str = "the password does not open the PFX file";
const PROTECTION: &str = "the PFX file is protected in a way that is not supported; \
                          supported are AES with PBKDF2, 3DES and RC2";
const KEY_KIND: &str = "the private key is of a kind that cannot be used; \
                        supported are RSA with 2048 to 4096 bits, P-256, P-384 and Ed25519";

#[test]
fn input_that_is_no_pfx_file_is_refused() {
    for text in ["pfx key", "MIIK*", "MIIKi===", "µ"] {
        assert_eq!(refusal_message(read_text(text, "secret")), NOT_BASE64);
    }
    for text in ["", "cGZ4", "MAA=", "AAAA"] {
        assert_eq!(refusal_message(read_text(text, "secret")), MALFORMED);
    }
    assert_eq!(refusal_message(read(&data("plain.der"), "secret")), MALFORMED);
    let mut longer = data("aes256-single.pfx");
    longer.push(0);
    assert_eq!(refusal_message(read(&longer, "secret")), MALFORMED);
}

#[test]
fn a_wrong_password_is_reported() {
    for file in ["aes256-single.pfx", "rc2-40-legacy.pfx", "no-mac.pfx", "unencrypted.pfx"] {
        for password in ["Secret", "secret ", "", "canary"] {
            assert_eq!(refusal_message(read(&data(file), password)), PASSWORD, "{file}");
        }
    }
    assert_eq!(refusal_message(read(&data("empty-password.pfx"), "secret")), PASSWORD);
}

#[test]
fn a_file_holds_exactly_one_key() {
    let refused = |file: &str| refusal_message(read(&data(file), "secret"));
    assert_eq!(refused("no-key.pfx"), "the PFX file contains no private key");
    assert_eq!(refused("two-keys.pfx"), "the PFX file contains more than one private key");
}

#[test]
fn a_file_holds_one_to_five_certificates() {
    let refused = |file: &str| refusal_message(read(&data(file), "secret"));
    assert_eq!(refused("no-certificate.pfx"), "the PFX file contains no certificate");
    let many = "the PFX file must not contain more than 5 certificates";
    assert_eq!(refused("chain-of-6.pfx"), many);
}

#[test]
fn a_key_without_its_certificate_is_refused() {
    let bags =
        [certificate_bag(&data("second.der")), encrypted_key_bag(&data("key-hmac-sha512.der"))];
    let file = pfx(&[plain_safe(&bags)], None);
    let message = "no certificate in the PFX file belongs to its private key";
    assert_eq!(refusal_message(read(&file, "secret")), message);
}

#[test]
fn keys_that_tls_cannot_use_are_refused() {
    for file in ["ec-p521.pfx", "rsa-1024.pfx"] {
        assert_eq!(refusal_message(read(&data(file), "secret")), KEY_KIND, "{file}");
    }
    let file = pfx(&[plain_safe(&[certificate_bag(&data("plain.der")), key_bag(b"")])], None);
    assert_eq!(refusal_message(read(&file, "secret")), MALFORMED);
}

#[test]
fn keys_are_decrypted_with_every_supported_prf() {
    let with_key = |key: &str| {
        let bags = [certificate_bag(&data("plain.der")), encrypted_key_bag(&data(key))];
        pfx(&[plain_safe(&bags)], None)
    };
    for key in ["key-hmac-sha1.der", "key-hmac-sha384.der", "key-hmac-sha512.der"] {
        assert!(read(&with_key(key), "secret").is_ok(), "{key}");
        assert_eq!(refusal_message(read(&with_key(key), "canary")), PASSWORD, "{key}");
    }
    for key in ["key-scrypt.der", "key-rc4.der"] {
        assert_eq!(refusal_message(read(&with_key(key), "secret")), PROTECTION, "{key}");
    }
}

#[test]
fn too_many_iterations_are_refused() {
    let message = "opening the PFX file must not take more than 600000 iterations in all";
    assert_eq!(refusal_message(read(&data("too-many-iterations.pfx"), "secret")), message);
}

#[test]
fn the_size_limit_is_exact() {
    let file = data("ec-p256.pfx");
    let (pfx, password) = (Secret::new(STANDARD.encode(&file)), Secret::new("secret".to_owned()));
    for (bytes_max, allowed) in [(file.len(), true), (file.len() - 1, false), (10, false)] {
        let limits = Limits { pfx_bytes_max: bytes_max, ..Limits::default() };
        let result = read_pfx(&pfx, &password, &limits);
        assert_eq!(result.is_ok(), allowed);
        if !allowed {
            let message = format!("the PFX file must not be larger than {bytes_max} bytes");
            assert_eq!(refusal_message(result), message);
        }
    }
}
