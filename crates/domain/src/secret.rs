//! Texts that are never shown.

use std::fmt;

use zeroize::Zeroizing;

/// Headers whose values are secret; an operator may name more.
pub const SECRET_HEADERS: [&str; 4] =
    ["authorization", "cookie", "proxy-authorization", "x-api-key"];
/// Query parameters that make an address secret: signatures and function keys.
pub const SECRET_PARAMETERS: [&str; 2] = ["sig", "code"];

/// A text that cannot be printed, logged or compared by accident, and is wiped when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text in.
    pub fn new(text: String) -> Secret {
        Secret(Zeroizing::new(text))
    }

    /// The text itself. Each use is a place to look at when secrets leak.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("canary".to_owned());
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "[secret] Some([secret])");
        assert_eq!(secret.reveal(), "canary");
    }
}
