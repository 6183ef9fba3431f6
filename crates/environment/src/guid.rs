//! Random GUIDs.

use crate::entropy::Entropy;

/// Returns a random GUID in lower-case hexadecimal with hyphens. If the random number generator
/// fails, all digits are zero.
pub fn new_guid(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    let _ = entropy.fill(&mut bytes);
    format_guid(bytes)
}

/// Formats 16 bytes as a GUID, in big-endian order: `00112233-4455-6677-8899-aabbccddeeff`.
pub fn format_guid(bytes: [u8; 16]) -> String {
    let mut rest = u128::from_be_bytes(bytes);
    let mut text = vec![b'-'; 36];
    for (position, letter) in text.iter_mut().enumerate() {
        if !matches!(position, 8 | 13 | 18 | 23) {
            let digit = (rest >> 124) as u8;
            *letter = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
            rest <<= 4;
        }
    }
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededEntropy;

    #[test]
    fn guids_are_well_formed_and_differ() {
        let entropy = SeededEntropy::new(1);
        let (first, second) = (new_guid(&entropy), new_guid(&entropy));
        assert_ne!(first, second);
        let lengths: Vec<_> = first.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        let bytes = 0x00112233_44556677_8899aabb_ccddeeff_u128.to_be_bytes();
        assert_eq!(format_guid(bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
