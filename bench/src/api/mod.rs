//! The API of a running server, compared with a bare handler in its own process.
//!
//! | module | contents |
//! |---|---|
//! | [`load`] | connections that send the next request as soon as the response arrives |
//! | [`servers`] | the server of this build, and a bare axum handler |

pub mod load;
pub mod servers;
