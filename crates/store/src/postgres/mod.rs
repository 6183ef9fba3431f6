//! The store in PostgreSQL: any number of nodes, one database.
//!
//! | part | what it is |
//! |---|---|
//! | [`PostgresStore`] | the pool and the trait; a deadline on every call (`call`) |
//! | `migrate` | the schema, and whether the key is the right one |
//! | `edit_job`, `edit_collection`, `group` | edits, decided under locks |
//! | `commit` | what the engine has decided: read under locks, decided in memory, written in sets |
//! | `events` | what came into the history of all jobs |
//! | `columns`, `row` | what columns are called, and records from them |
//! | `read` | lists and single records, each one statement |
//! | `nudge` | a hint that something changed, without content |
//!
//! Locks are taken in one order by everyone: subscription, collections by number, states by job.
//! Who changes a job's state, runs, history or ledger holds the lock on its row in `states`, so
//! what is read after it has been taken stays true until the commit. There is no leader and, in the
//! firing path, no advisory lock.
//!
//! Connections are plain for now: [`PostgresStore::connect_with`] takes what makes TLS connections,
//! and nothing here brings a TLS stack. An address that demands TLS is refused by
//! [`PostgresStore::connect`].

mod call;
mod check;
mod clock;
mod code;
mod columns;
mod commit;
mod connect;
mod edit_collection;
mod edit_job;
mod events;
mod fault;
mod group;
mod invariant_scan;
mod jobs_for_run;
mod migrate;
mod nudge;
mod prune;
mod read;
mod removal;
mod row;
mod schema;
mod search;
mod settings;
mod store;
mod tokens;

pub use connect::PostgresStore;
pub use settings::PostgresSettings;
