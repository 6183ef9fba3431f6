//! Pool size, queue limit and timeouts of the PostgreSQL driver.

use std::time::Duration;

/// Pool size, queue limit and timeouts of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresSettings {
    /// Maximum number of connections of the API. The listener uses one more. Default: 8.
    pub connections_max: usize,
    /// Maximum number of connections of the engine, in addition to those of the API. Default: 8.
    pub engine_connections_max: usize,
    /// Maximum number of calls that wait for a connection; further calls fail at once, so that an
    /// outage of the database does not exhaust memory. Default: 1000.
    pub waiting_max: usize,
    /// Timeout of a call, including the wait for a connection and retries. Default: 10 seconds.
    pub deadline: Duration,
    /// Timeout of a wait for a lock. Transactions take milliseconds, so a longer wait means that the
    /// holder of the lock hangs. Default: 4 seconds.
    pub lock_deadline: Duration,
    /// Time after which the database ends a transaction whose node sends nothing, such as a node that
    /// was stopped or cut off: its locks block others. Shorter than `lock_deadline`, so that those
    /// who wait for its locks succeed. Default: 2 seconds.
    pub idle_deadline: Duration,
    /// Timeout of a renewal of leases: much shorter than a lease, so that one that hangs can be
    /// repeated in time. Default: 2 seconds.
    pub renewal_deadline: Duration,
    /// Timeout of calls that read every row of the store, such as the integrity check, and of the wait
    /// for another node that migrates the store. Default: 5 minutes.
    pub long_deadline: Duration,
    /// Timeout of opening a connection. Default: 5 seconds.
    pub connect_deadline: Duration,
}

impl Default for PostgresSettings {
    fn default() -> PostgresSettings {
        PostgresSettings {
            connections_max: 8,
            engine_connections_max: 8,
            waiting_max: 1_000,
            deadline: Duration::from_secs(10),
            lock_deadline: Duration::from_secs(4),
            idle_deadline: Duration::from_secs(2),
            renewal_deadline: Duration::from_secs(2),
            long_deadline: Duration::from_secs(300),
            connect_deadline: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NUMBERS_COMPLETE_AFTER;

    #[test]
    fn the_time_limits_follow_each_other() {
        let settings = PostgresSettings::default();
        assert!(settings.idle_deadline < settings.lock_deadline);
        assert!(settings.lock_deadline < settings.deadline);
        assert!(settings.deadline < NUMBERS_COMPLETE_AFTER);
    }
}
