//! The tables of a store in a form that is independent of the driver.

use kalends_domain::JobDefinition;
use ring::digest::{Context, SHA256};
use serde_json::Value;

use crate::error::StoreError;
use crate::record::JobUid;
use crate::stored_form::{DefinitionCodec, read_definition};

/// A row: one value for each of [`Table::columns`]. Numbers are integers, switches 0 or 1, and bytes are
/// hexadecimal.
pub type Row = Vec<Value>;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the rows")]
pub enum Table {
    Groups,
    Collections,
    Jobs,
    EarlierDefinitions,
    States,
    Runs,
    History,
    Ledger,
    Tokens,
    Notes,
    KeyMaterial,
    Pause,
}

impl Table {
    /// All tables, each after those that it refers to.
    pub const ALL: [Table; 12] = [
        Table::Groups,
        Table::Collections,
        Table::Jobs,
        Table::EarlierDefinitions,
        Table::States,
        Table::Runs,
        Table::History,
        Table::Ledger,
        Table::Tokens,
        Table::Notes,
        Table::KeyMaterial,
        Table::Pause,
    ];

    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Table::Groups => "resource groups",
            Table::Collections => "collections",
            Table::Jobs => "jobs",
            Table::EarlierDefinitions => "earlier definitions",
            Table::States => "states of jobs",
            Table::Runs => "open runs",
            Table::History => "history entries",
            Table::Ledger => "ledger rows",
            Table::Tokens => "tokens",
            Table::Notes => "notes",
            Table::KeyMaterial => "wrapped keys",
            Table::Pause => "pauses",
        }
    }

    /// The columns. The first one identifies a row and orders the table.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            // `definition` is an array of the location and the tags.
            Table::Groups => {
                &["id", "subscription_key", "name_key", "subscription", "name", "definition"]
            }
            Table::Collections => &[
                "id",
                "group",
                "name_key",
                "name",
                "definition",
                "plan",
                "enabled",
                "created",
                "enabled_since",
                "version",
            ],
            Table::Jobs => &[
                "job",
                "collection",
                "name_key",
                "name",
                "uid",
                "created",
                "version",
                "definition",
                "shortest_gap",
                "shortest_retry",
                "authenticated",
            ],
            Table::EarlierDefinitions => &["number", "job", "generation", "replaced", "definition"],
            Table::States => &[
                "job",
                "collection",
                "generation",
                "enabled",
                "lifecycle",
                "due",
                "used",
                "last_execution",
                "executions",
                "failures",
                "faulted",
                "finished",
                "entries",
                "schedule_generation",
                "enabled_since",
                "consecutive_failures",
                "skip_until",
            ],
            Table::Runs => &[
                "run",
                "job",
                "generation",
                "scheduled",
                "cause",
                "repeat",
                "role",
                "retry",
                "redelivery",
                "next_at",
                "first_started",
                "owner",
                "token",
                "lease_until",
                "last_token",
                "waits_for",
                "attempts",
                "started",
            ],
            Table::History => &[
                "sequence",
                "job",
                "started",
                "ended",
                "expected",
                "status",
                "message",
                "retry",
                "repeat",
                "role",
                "dns",
                "connect",
                "tls",
                "first_byte",
                "total",
                "generation",
            ],
            Table::Ledger => &[
                "number",
                "job",
                "generation",
                "first_at",
                "last_at",
                "count",
                "cause",
                "disposition",
                "closed",
                "started",
                "ended",
                "attempts",
            ],
            Table::Tokens => &[
                "id",
                "name",
                "hash",
                "role",
                "scope",
                "created",
                "expires",
                "revoked",
                "last_used",
            ],
            Table::Notes => {
                &["number", "time", "action", "collection", "job", "author", "author_name", "text"]
            }
            Table::KeyMaterial => &["name", "ciphertext"],
            Table::Pause => &["id", "since", "until", "resumed", "reason", "author"],
        }
    }

    /// The value of the first column after which all rows come.
    pub(crate) fn start(self) -> Value {
        match self {
            Table::Tokens | Table::KeyMaterial => Value::from(""),
            _ => Value::from(i64::MIN),
        }
    }

    /// The index of a column.
    pub(crate) fn index(self, column: &str) -> Option<usize> {
        self.columns().iter().position(|name| *name == column)
    }
}

/// Number and checksum of the rows of a table.
pub(crate) struct TableDigest {
    rows: u64,
    context: Context,
}

/// The result of a [`TableDigest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableSum {
    pub(crate) rows: u64,
    pub(crate) sha256: Vec<u8>,
}

impl TableDigest {
    pub(crate) fn new() -> TableDigest {
        TableDigest { rows: 0, context: Context::new(&SHA256) }
    }

    pub(crate) fn add(&mut self, rows: &[Row]) {
        for row in rows {
            self.rows += 1;
            // One line of JSON for each row: no two different tables have the same text.
            self.context.update(Value::from(row.as_slice()).to_string().as_bytes());
            self.context.update(b"\n");
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn finish(self) -> TableSum {
        TableSum { rows: self.rows, sha256: self.context.finish().as_ref().to_vec() }
    }
}

/// The decoded definition in a row of [`Table::Jobs`].
pub(crate) fn definition_of(
    row: &Row,
    codec: &DefinitionCodec,
) -> Result<JobDefinition, StoreError> {
    let text = |column: &str| {
        let index = Table::Jobs.index(column);
        index.and_then(|index| row.get(index)).and_then(Value::as_str).unwrap_or_default()
    };
    let uid = u128::from_str_radix(text("uid"), 16);
    let uid = uid.map_err(|_| StoreError::Damaged("a job has no readable uid".into()))?;
    read_definition(text("definition"), JobUid(uid.to_be_bytes()), codec)
}

/// Gives the values of a row the same text in every store.
pub(crate) fn normalize(table: Table, row: &mut Row) -> Result<(), StoreError> {
    // Both databases format JSON in their own way.
    if table == Table::Groups
        && let Some(Value::String(definition)) = row.last_mut()
    {
        let damaged = |error| StoreError::Damaged(format!("tags of a group: {error}"));
        let parsed: Value = serde_json::from_str(definition).map_err(damaged)?;
        *definition = parsed.to_string();
    }
    Ok(())
}
