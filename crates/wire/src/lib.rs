//! What users see as JSON.
//!
//! Reading is strict about form and kind about spelling: member names and enum values are read
//! without regard to case, unknown members are ignored, a scalar stands for a list of one; but a
//! member given twice, a wrong type or a control character is refused with its path. Everything
//! that is wrong is collected, so that one answer names it all.

mod error;
mod json;
mod next;
mod read;
mod recurrence;

pub use error::{Code, Error, Errors};
pub use json::{Json, Number};
pub use next::NextRequest;
pub use recurrence::read_definition;
