//! The PostgreSQL driver: any number of nodes share one database.
//!
//! | module | contents |
//! |---|---|
//! | `connect`, `store` | [`PostgresStore`]: the connection pool and the [`Store`] trait |
//! | `transaction`, `error` | transactions and queries with deadlines and retries; error mapping |
//! | `migrate`, `schema` | schema migrations, the check of the encryption key, schema description |
//! | `groups`, `collections`, `jobs`, `search`, `due`, `due_floor`, `runs`, `lease_floor`, `history`, `events`, `notes`, `earlier_definitions`, `tokens`, `sessions` | reads, one statement each, and edits of groups and tokens |
//! | `read_queue` | concurrent reads of jobs in one statement |
//! | `edit_jobs`, `edit_collection` | edits that the caller decides while their rows are locked; those of jobs in groups |
//! | `jobs_for_run`, `commit`, `renew_leases` | the engine: jobs to run, batches of run writes, renewals of leases |
//! | `heartbeat` | nodes in service |
//! | `invariant_scan`, `check`, `dump`, `transfer`, `key_rotation` | data for the invariant scan; integrity check; dump; copies; key rotation |
//! | `removal`, `prune` | deletion with dependent rows; retention |
//! | `columns`, `row`, `code`, `arrays` | column lists, conversion of rows and of values, writes of many rows |
//! | `clock`, `notify` | the database clock; change notifications between nodes |
//!
//! All transactions lock in one order: subscription, collections by id, states by job. A transaction
//! that changes a job's state, runs, history or ledger holds the lock on the job's row in `states`,
//! so values read after locking stay valid until the commit. `commit` takes this lock with its first
//! write, which fails if the row has changed since it was read; a transaction that opens or closes a
//! run of a schedule therefore changes the state of its job. There is no leader, and the path that
//! starts runs uses no advisory locks.
//!
//! [`PostgresStore::connect`] opens connections without TLS and refuses a URL that requires it. For
//! TLS, pass a connector to [`PostgresStore::connect_with`]; this crate brings no TLS stack.
//!
//! [`Store`]: crate::Store

mod arrays;
mod check;
mod clock;
mod code;
mod collections;
mod columns;
mod commit;
mod connect;
mod due;
mod due_floor;
mod dump;
mod earlier_definitions;
mod edit_collection;
mod edit_jobs;
mod error;
mod events;
mod groups;
mod heartbeat;
mod history;
mod invariant_scan;
mod jobs;
mod jobs_for_run;
mod key_rotation;
mod lease_floor;
mod migrate;
mod notes;
mod notify;
mod overview;
mod overview_scan;
mod pause;
mod probe;
mod prune;
mod read_queue;
mod removal;
mod renew_leases;
mod row;
mod run_reports;
mod runs;
mod schema;
mod search;
mod sessions;
mod settings;
mod store;
mod tokens;
mod transaction;
mod transfer;

pub use connect::{PostgresStore, endpoints};
pub use key_rotation::PostgresKeyRotation;
pub use settings::PostgresSettings;
pub use transfer::PostgresTransfer;
