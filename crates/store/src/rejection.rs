//! The error of an edit that its caller rejected.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The error with which the caller's own `decide` function rejected an edit. The store passes it
/// through unchanged; the caller takes it out with [`Rejection::downcast_ref`].
#[derive(Clone)]
pub struct Rejection(Arc<dyn Error + Send + Sync>);

impl Rejection {
    /// The caller's error, if it is of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Rejection {
    fn from(error: E) -> Rejection {
        Rejection(Arc::new(error))
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Two rejections are equal if they read the same.
impl PartialEq for Rejection {
    fn eq(&self, other: &Rejection) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Eq for Rejection {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, thiserror::Error)]
    #[error("no, {0}")]
    struct No(u8);

    #[test]
    fn the_callers_error_is_returned_unchanged() {
        let rejection = Rejection::from(No(7));
        assert_eq!(rejection.downcast_ref(), Some(&No(7)));
        assert_eq!(rejection.downcast_ref::<fmt::Error>(), None);
        assert_eq!(rejection.to_string(), "no, 7");
        assert_eq!(rejection, Rejection::from(No(7)));
        assert_ne!(rejection, Rejection::from(No(8)));
    }
}
