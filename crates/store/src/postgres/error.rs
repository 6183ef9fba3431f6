//! Errors of PostgreSQL, and how they map to [`StoreError`].

use std::error::Error as _;
use std::io;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::SqlState;

use crate::error::StoreError;

/// An error inside a transaction or query.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostgresError {
    /// An error that callers receive unchanged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database reported an error, or its connection broke.
    #[error("database error")]
    Database(#[from] tokio_postgres::Error),
    /// The operation must be repeated with other locks.
    #[error("repeat with other locks")]
    Repeat,
    /// Rows that a statement should have written are missing, or have changed since they were read.
    #[error("{0}")]
    Changed(String),
    /// The pool provided no connection.
    #[error("no connection from the pool")]
    Pool(#[from] PoolError),
}

/// Why a transaction failed, by how the caller proceeds.
pub(super) enum TransactionFailure {
    /// A serialization failure or deadlock: rolled back, and a retry may succeed.
    Conflict,
    /// The connection broke before the commit: rolled back, and a retry on another connection may
    /// succeed.
    ConnectionLost(StoreError),
    /// A retry would not help. Nothing was committed, unless the error is [`StoreError::Unknown`].
    Permanent(StoreError),
}

impl PostgresError {
    /// Classifies an error that occurred before the commit was sent.
    pub(super) fn before_commit(self) -> TransactionFailure {
        let error = match self {
            PostgresError::Store(error) => return TransactionFailure::Permanent(error),
            PostgresError::Pool(error) => return TransactionFailure::Permanent(pool_error(&error)),
            PostgresError::Repeat => return TransactionFailure::Conflict,
            PostgresError::Changed(message) => {
                return TransactionFailure::Permanent(StoreError::Failed(message));
            }
            PostgresError::Database(error) => error,
        };
        match error.code() {
            Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => {
                TransactionFailure::Conflict
            }
            Some(code) if ends_connection(code) => {
                TransactionFailure::ConnectionLost(unavailable(&error))
            }
            Some(code) => TransactionFailure::Permanent(error_of_code(code, &error)),
            None if is_connection_error(&error) => {
                TransactionFailure::ConnectionLost(unavailable(&error))
            }
            None => TransactionFailure::Permanent(StoreError::Failed(error.to_string())),
        }
    }

    /// Classifies an error in the response to the commit. Only an error that the server reports
    /// about the transaction itself proves that nothing was committed.
    pub(super) fn in_commit(error: tokio_postgres::Error) -> TransactionFailure {
        match error.code() {
            Some(code)
                if !ends_connection(code)
                    && *code != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN =>
            {
                PostgresError::Database(error).before_commit()
            }
            _ => TransactionFailure::Permanent(StoreError::Unknown(message(&error))),
        }
    }
}

fn pool_error(error: &PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => connection_error(error),
        PoolError::Timeout(TimeoutType::Create) => StoreError::Unavailable(error.to_string()),
        other => StoreError::Busy(other.to_string()),
    }
}

/// The error of a failed connection attempt.
pub(super) fn connection_error(error: &tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(code) if ends_connection(code) => unavailable(error),
        Some(code) => error_of_code(code, error),
        None if is_connection_error(error) => unavailable(error),
        None => StoreError::Failed(message(error)),
    }
}

fn error_of_code(code: &SqlState, error: &tokio_postgres::Error) -> StoreError {
    match *code {
        SqlState::DISK_FULL => StoreError::Full,
        SqlState::QUERY_CANCELED
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::TOO_MANY_CONNECTIONS
        | SqlState::OUT_OF_MEMORY => busy(error),
        SqlState::READ_ONLY_SQL_TRANSACTION => unavailable(error),
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => StoreError::Damaged(message(error)),
        _ => StoreError::Failed(message(error)),
    }
}

/// Whether the server ends or refuses a connection with this code.
fn ends_connection(code: &SqlState) -> bool {
    let ended = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    code.code().starts_with("08") || ended.contains(code)
}

fn is_connection_error(error: &tokio_postgres::Error) -> bool {
    error.is_closed()
        || error.source().is_some_and(|cause| cause.is::<io::Error>())
        || error.to_string().starts_with("timeout")
}

fn busy(error: &tokio_postgres::Error) -> StoreError {
    StoreError::Busy(message(error))
}

fn unavailable(error: &tokio_postgres::Error) -> StoreError {
    StoreError::Unavailable(message(error))
}

/// The message without its details, which may quote a row.
fn message(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(error), _) => error.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
