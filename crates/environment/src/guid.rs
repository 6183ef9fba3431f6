//! Identities made of chance.

use crate::entropy::Entropy;

/// A GUID in its usual form. Where the system has no chance to give it is all zeros, which says so.
pub fn new_guid(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    let _ = entropy.fill(&mut bytes);
    // Every answer has two of them: one allocation for each.
    let mut guid = String::with_capacity(36);
    for (place, byte) in bytes.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            guid.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            guid.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    guid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededEntropy;

    #[test]
    fn guids_have_their_form_and_differ() {
        let entropy = SeededEntropy::new(1);
        let (first, second) = (new_guid(&entropy), new_guid(&entropy));
        assert_ne!(first, second);
        let lengths: Vec<_> = first.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert!(first.chars().all(|char| char == '-' || matches!(char, '0'..='9' | 'a'..='f')));
    }
}
