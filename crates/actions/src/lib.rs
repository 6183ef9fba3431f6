//! Performs one attempt of a job's action.
//!
//! [`certificate`] reads the file with which an HTTP action shows who it is.

pub mod certificate;
