//! Pool size, queue limit and timeouts of the PostgreSQL driver.

use std::time::Duration;

/// Pool size, queue limit and timeouts of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresSettings {
    /// Maximum number of pooled connections. The listener uses one more. Default: 10.
    pub connections_max: usize,
    /// Maximum number of calls that wait for a connection; further calls fail at once, so that an
    /// outage of the database does not exhaust memory. Default: 1000.
    pub waiting_max: usize,
    /// Timeout of a call, including the wait for a connection and retries. Default: 10 seconds.
    pub deadline: Duration,
    /// Timeout of calls that may touch every row of a collection or of the store, such as deleting or
    /// disabling a collection, migrations and the integrity check. Default: 5 minutes.
    pub long_deadline: Duration,
    /// Timeout of opening a connection. Default: 5 seconds.
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
