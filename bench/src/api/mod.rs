//! The API of a running server, beside a bare handler in a process of its own.
//!
//! | part | what it is |
//! |---|---|
//! | [`load`] | connections that ask as fast as they are answered |
//! | [`servers`] | the server of this build, and a bare axum handler |

pub mod load;
pub mod servers;
