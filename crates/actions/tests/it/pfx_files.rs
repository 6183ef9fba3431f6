//! PFX files written by common programs. The expected facts come from openssl (see
//! `tests/data/README.md`), with the subject converted to the .NET format by hand.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use der::Decode;
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair};
use x509_cert::Certificate;

use crate::{data, read, read_text};

const PASSWORD: &str = "secret";
const ODD_PASSWORD: &str = "pässwörd→😀";

/// The output of openssl for a file.
struct Facts {
    thumbprint: &'static str,
    expiration: &'static str,
    subject_name: &'static str,
    /// SHA-256 of the key in PKCS#8 DER.
    key: &'static str,
}

/// The certificate in most files.
const PLAIN: Facts = Facts {
    thumbprint: "4BBD3BA934F4FABFF13A6839704122173087804B",
    expiration: "2036-11-12T10:17:02Z",
    subject_name: "CN=Terraform App Gateway, OU=Azure, O=Terraform Tests, S=Some-State, C=US",
    key: "dd39d4a6b9722c7592833c828ae4e6ee5aefcb0a57562089b5bcb1e213720c6c",
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(file: &str, password: &str, facts: &Facts) {
    let identity = read(&data(file), password).unwrap_or_else(|fault| panic!("{file}: {fault}"));
    let found = identity.facts();
    assert_eq!(found.thumbprint, facts.thumbprint, "{file}");
    assert_eq!(found.expiration.to_string(), facts.expiration, "{file}");
    assert_eq!(found.subject_name, facts.subject_name, "{file}");
    let key = digest::digest(&digest::SHA256, identity.key().reveal());
    assert_eq!(hex(key.as_ref()), facts.key, "{file}");
}

#[test]
fn every_supported_protection_is_decrypted() {
    for file in [
        "aes256-single.pfx",
        "aes128-sha512.pfx",
        "pbes2-triple-des.pfx",
        "triple-des.pfx",
        "rc2-40-legacy.pfx",
        "rc2-128.pfx",
        "no-mac.pfx",
        "unencrypted.pfx",
        "unencrypted-no-mac.pfx",
    ] {
        check(file, PASSWORD, &PLAIN);
    }
}

#[test]
fn passwords_may_be_empty_or_non_ascii() {
    check("empty-password.pfx", "", &PLAIN);
    check("non-ascii-password.pfx", ODD_PASSWORD, &PLAIN);
    check("non-ascii-legacy.pfx", ODD_PASSWORD, &PLAIN);
}

#[test]
fn a_file_without_mac_and_encryption_opens_with_any_password() {
    check("unencrypted-no-mac.pfx", "any", &PLAIN);
}

#[test]
fn the_iteration_limit_is_exact() {
    check("many-iterations.pfx", PASSWORD, &PLAIN);
}

#[test]
fn base64_may_have_line_breaks_and_lack_its_padding() {
    let text = STANDARD.encode(data("ec-p256.pfx"));
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    for text in [
        lines.join("\r\n"),
        lines.join("\n") + "\n",
        lines.join(" \t"),
        text.trim_end_matches('=').to_owned(),
    ] {
        assert!(read_text(&text, PASSWORD).is_ok());
    }
}

#[test]
fn elliptic_curve_keys_are_read() {
    check(
        "ec-p256.pfx",
        PASSWORD,
        &Facts {
            thumbprint: "7BE0CEFC46BEDBCD81247A2DBFD57D28824CC8A4",
            expiration: "2036-11-12T10:17:07Z",
            subject_name: "CN=P-256",
            key: "08065c4eb84d808be28276aa24edf587355f90d7afa9eae879d768badb45c5c9",
        },
    );
    check(
        "ec-p384.pfx",
        PASSWORD,
        &Facts {
            thumbprint: "EE1E4E35C0581F25F93ED760A94102EADC801F72",
            expiration: "2036-11-12T10:17:07Z",
            subject_name: "CN=P-384",
            key: "408334e631f45520e61ae9c04532b5042b48f3fd5b7ac7287f9fde3cbf716681",
        },
    );
    check(
        "ed25519.pfx",
        PASSWORD,
        &Facts {
            thumbprint: "3410EB22722D910EB8E2718B8E9BDAC5F646201E",
            expiration: "2036-11-12T10:17:07Z",
            subject_name: "CN=Ed25519",
            key: "e4f20cb7875d540f600c63f8df7b86b20c2b45fcb42ff10695353d2af2cf2ed8",
        },
    );
}

#[test]
fn files_from_java_are_read() {
    check(
        "keytool-rsa.pfx",
        PASSWORD,
        &Facts {
            thumbprint: "0F7D3EB46F0858F69404C672CBC4B9C3110B576D",
            expiration: "2036-11-12T10:17:07Z",
            subject_name: "CN=Java, OU=Tests, C=DE",
            key: "534ae4d306814ba34e13eb9ce55e62cc22d61f7b284cf01352f63761cef0cbd0",
        },
    );
}

/// Java omits the public key of an elliptic-curve key, which ring requires.
#[test]
fn a_missing_public_key_is_added() {
    let identity = read(&data("keytool-ec.pfx"), PASSWORD).unwrap();
    assert_eq!(identity.facts().thumbprint, "AC07CBD7B39B28D49E48A6BC149BE77EA03148C9");
    let algorithm = &signature::ECDSA_P256_SHA256_ASN1_SIGNING;
    let key = identity.key().reveal();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, key, &SystemRandom::new()).unwrap();
    let certificate = Certificate::from_der(&identity.chain()[0]).unwrap();
    let public_key = certificate.tbs_certificate().subject_public_key_info();
    assert_eq!(pair.public_key().as_ref(), public_key.subject_public_key.raw_bytes());
}

#[test]
fn an_expired_certificate_is_read() {
    check(
        "expired.pfx",
        PASSWORD,
        &Facts {
            thumbprint: "849CD8022EFE207F074C0EA64C6A7F378CF694BF",
            expiration: "2015-06-30T23:59:59Z",
            subject_name: "CN=expired",
            key: "deadf390d4509ebb8b97060c474ee7f85143d73a2414c3a34e3ef44ec33ec66b",
        },
    );
}

#[test]
fn names_with_special_characters_are_formatted_as_in_dotnet() {
    check(
        "odd-subject.pfx",
        PASSWORD,
        &Facts {
            thumbprint: "B123DF6B0EDC6BBB528751AEF013ACE3F23EDE77",
            expiration: "2036-11-12T10:17:08Z",
            subject_name: "CN=\"a + b <c>\", OID.0.9.2342.19200300.100.1.1=ann, E=ann@example.org, SN=O'Neil, \
                       G=Ann, T=\"a=b\", Description=\"no #1\", SERIALNUMBER=7, OU=\" blanks \", \
                       O=\"Muster & Söhne, GmbH\", STREET=\"1 High St; \"\"Rear\"\"\", DC=example, DC=org",
            key: "bdb37cd598dc912b801aa5cb2584d21af13925bfd0d167fd6b022d218e4cc09a",
        },
    );
}

/// In encoding order.
#[test]
fn multi_valued_name_parts_are_joined() {
    check(
        "multi-valued.pfx",
        PASSWORD,
        &Facts {
            thumbprint: "00231E0DB219130F7E24BAD438C6287AD15CD4A9",
            expiration: "2036-11-12T10:17:09Z",
            subject_name: "SERIALNUMBER=7 + CN=Ann, OU=Tests + O=Kalends, C=DE",
            key: "317fa8f4c982387266252c48f74f995afe4e2ca8f6ef61154519ca8784fdf3af",
        },
    );
}

#[test]
fn the_certificate_of_the_key_is_found_in_a_chain() {
    check(
        "aes256-chain.pfx",
        PASSWORD,
        &Facts {
            thumbprint: "0C7213566FF121C50364D6C2E336030B9EC1B888",
            expiration: "2036-11-12T10:17:05Z",
            subject_name: "CN=leaf, O=Kalends Tests",
            key: "daac9f8bfa5911540221dc6b853e5576ce7d82aa40307a093fe49cbb9efca8b5",
        },
    );
}

/// The common names in a chain, in order.
fn names(file: &str) -> Vec<String> {
    let identity = read(&data(file), PASSWORD).unwrap();
    let name = |der: &Vec<u8>| {
        let certificate = Certificate::from_der(der).unwrap();
        let subject = certificate.tbs_certificate().subject().to_string();
        subject.split(',').next().unwrap().to_owned()
    };
    identity.chain().iter().map(name).collect()
}

#[test]
fn a_chain_begins_with_the_certificate_of_the_key() {
    assert_eq!(names("aes256-chain.pfx"), ["CN=leaf", "CN=middle", "CN=root"]);
    assert_eq!(
        names("chain-of-5.pfx"),
        ["CN=leaf", "CN=lower", "CN=middle", "CN=upper", "CN=root"]
    );
}

#[test]
fn an_identity_does_not_print_its_key() {
    let identity = read(&data("ec-p256.pfx"), PASSWORD).unwrap();
    let printed = format!("{:?} {:?}", identity, identity.key());
    assert!(printed.contains("key: [secret]") && printed.ends_with(" [secret]"), "{printed}");
}
