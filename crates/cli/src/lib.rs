//! The command line client: commands that use a server through its public REST API, and conversions of
//! job definitions between files and the API. It has no access to the store or the engine.

mod exit_status;

pub use exit_status::ExitStatus;
