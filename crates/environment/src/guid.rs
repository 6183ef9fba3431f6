//! Identities made of chance.

use crate::entropy::Entropy;

/// A GUID in its usual form. Where the system has no chance to give it is all zeros, which says so.
pub fn new_guid(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    let _ = entropy.fill(&mut bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
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
    }
}
