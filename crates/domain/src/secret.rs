//! Secret strings.

use std::fmt;

use zeroize::Zeroizing;

/// Lower-case names of headers with secret values; an operator can add more.
pub const SECRET_HEADERS: [&str; 4] =
    ["authorization", "cookie", "proxy-authorization", "x-api-key"];
/// Query parameters that make a URI secret: signatures and function keys.
pub const SECRET_PARAMETERS: [&str; 2] = ["sig", "code"];

/// A string that `Debug` redacts and that is zeroed when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a string.
    pub fn new(text: String) -> Secret {
        Secret(Zeroizing::new(text))
    }

    /// The secret itself. Review every call of this function for leaks.
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
    fn debug_redacts_secrets() {
        let secret = Secret::new("canary".to_owned());
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "[secret] Some([secret])");
        assert_eq!(secret.reveal(), "canary");
    }
}
