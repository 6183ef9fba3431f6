//! The API of a running server, compared with a bare handler in its own process.
//!
//! | module | contents |
//! |---|---|
//! | [`load`] | connections that ask as fast as they are answered |
//! | [`servers`] | the server of this build, and a bare axum handler |

pub mod load;
pub mod servers;
