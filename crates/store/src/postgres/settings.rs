//! Limits of a node's use of the database.

use std::time::Duration;

/// Limits of a node's use of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresSettings {
    /// Connections of this node, beside the one that listens.
    pub connections_max: usize,
    /// Calls that may wait for a connection; more are refused at once, so that an outage of the
    /// database does not fill the memory.
    pub waiting_max: usize,
    /// After this a call is answered, come what may.
    pub deadline: Duration,
    /// The same for calls that may touch every row of a collection: deleting it, switching it,
    /// checking the whole store.
    pub long_deadline: Duration,
    /// How long a new connection may take.
    pub connect_deadline: Duration,
}

impl Default for PostgresSettings {
    fn default() -> PostgresSettings {
        PostgresSettings {
            connections_max: 10,
            waiting_max: 1_000,
            deadline: Duration::from_secs(10),
            long_deadline: Duration::from_secs(300),
            connect_deadline: Duration::from_secs(5),
        }
    }
}
