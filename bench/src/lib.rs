//! Kalends measured against hand-written code and other libraries.
//!
//! A figure is worth something only beside another one of the same run on the same machine, and
//! only for right answers. So every subject checks first that all contenders agree, then times them
//! in interleaved [`rounds`]; `src/bin` has one program for each subject.

pub mod engine;
pub mod recurrence;
pub mod rounds;
pub mod store;
