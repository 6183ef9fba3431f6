//! Random input and randomly changed PFX files: read or refused, without a panic.

use kalends_domain::ValidationErrorKind;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::pfx_builder::{PASSWORD, encrypt, encrypted_safe, pbes2, pfx, safe_of_ciphertext};
use crate::{data, read, read_text};

const FILES: [&str; 5] =
    ["unencrypted-no-mac.pfx", "ec-p256.pfx", "no-mac.pfx", "rc2-40-legacy.pfx", "keytool-ec.pfx"];

proptest! {
    #[test]
    fn any_text_is_refused(text in any::<String>(), password in any::<String>()) {
        prop_assert!(read_text(&text, &password).is_err());
    }

    #[test]
    fn any_bytes_are_refused(bytes in vec(any::<u8>(), 0..2_000)) {
        prop_assert!(read(&bytes, PASSWORD).is_err());
    }

    #[test]
    fn any_bytes_inside_an_encrypted_part_are_refused(bytes in vec(any::<u8>(), 0..2_000)) {
        let part = safe_of_ciphertext(&pbes2(1), &encrypt(&bytes, 1));
        prop_assert!(read(&pfx(&[part], None), PASSWORD).is_err());
        prop_assert!(read(&pfx(&[encrypted_safe(&[bytes], 1)], None), PASSWORD).is_err());
    }

    #[test]
    fn a_file_with_changed_bytes_is_read_or_refused(
        name in select(&FILES[..]),
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let mut file = data(name);
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if let Err(fault) = read(&file, PASSWORD) {
            prop_assert_eq!(fault.kind, ValidationErrorKind::InvalidClientCertificate);
        }
    }
}
