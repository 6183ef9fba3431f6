//! Exit statuses that scripts can rely on.

/// How a command ended. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// The command did what it was asked to.
    Success = 0,
    /// The awaited run failed, `diff` found differences, or an internal error.
    Failure = 1,
    /// The command line or an input file is invalid.
    Usage = 2,
    /// The server does not know the resource.
    NotFound = 3,
    /// The server refused the request.
    Refused = 4,
    /// The server cannot be reached.
    Unreachable = 5,
}
