//! What can go wrong with a call, and what callers are told.

use std::error::Error as _;
use std::io;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::error::StoreError;

/// Why a call did not go through.
#[derive(Debug)]
pub(super) enum Fault {
    /// As the caller is told.
    Told(StoreError),
    /// By the database or the connection to it.
    Database(tokio_postgres::Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Told(error)
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Fault {
        Fault::Database(error)
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Fault {
        match error {
            PoolError::Backend(error) => Fault::Told(unconnected(&error)),
            other => Fault::Told(StoreError::Busy(other.to_string())),
        }
    }
}

/// What a fault before the commit means for the call.
pub(super) enum Before {
    /// Another transaction came between: nothing was done, and the same may succeed now.
    Again,
    /// The connection is gone, and with it the transaction: nothing was done.
    Lost(StoreError),
    /// Nothing was done.
    Over(StoreError),
}

impl Fault {
    /// Of a fault that came before the commit was sent.
    pub(super) fn before_commit(self) -> Before {
        let error = match self {
            Fault::Told(error) => return Before::Over(error),
            Fault::Database(error) => error,
        };
        match error.code() {
            Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => {
                Before::Again
            }
            Some(code) if is_end_of_connection(code) => Before::Lost(busy(&error)),
            Some(code) => Before::Over(refused(code, &error)),
            None if is_connection(&error) => Before::Lost(busy(&error)),
            None => Before::Over(StoreError::Failed(error.to_string())),
        }
    }

    /// Of a fault in the answer to the commit: only what the server itself reports of the
    /// transaction says that nothing was done.
    pub(super) fn in_commit(error: tokio_postgres::Error) -> Before {
        match error.code() {
            Some(code)
                if !is_end_of_connection(code)
                    && *code != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN =>
            {
                Fault::Database(error).before_commit()
            }
            _ => Before::Over(StoreError::Unknown(words(&error))),
        }
    }
}

/// Why there is no connection.
pub(super) fn unconnected(error: &tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(code) if is_end_of_connection(code) => busy(error),
        Some(code) => refused(code, error),
        None if is_connection(error) => busy(error),
        None => StoreError::Failed(words(error)),
    }
}

fn refused(code: &SqlState, error: &tokio_postgres::Error) -> StoreError {
    match *code {
        SqlState::DISK_FULL => StoreError::Full,
        SqlState::QUERY_CANCELED
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::TOO_MANY_CONNECTIONS
        | SqlState::OUT_OF_MEMORY
        | SqlState::READ_ONLY_SQL_TRANSACTION => busy(error),
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => StoreError::Damaged(words(error)),
        _ => StoreError::Failed(words(error)),
    }
}

/// Classes of codes with which a server ends a connection or does not begin one.
fn is_end_of_connection(code: &SqlState) -> bool {
    let ended = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    code.code().starts_with("08") || ended.contains(code)
}

fn is_connection(error: &tokio_postgres::Error) -> bool {
    error.is_closed()
        || error.source().is_some_and(|cause| cause.is::<io::Error>())
        || error.to_string().starts_with("timeout")
}

fn busy(error: &tokio_postgres::Error) -> StoreError {
    StoreError::Busy(words(error))
}

/// The message without its details, which may quote a row.
fn words(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(told), _) => told.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
