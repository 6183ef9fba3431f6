//! What the columns of the tables are called, for who reads them and for who writes them.

/// Names of columns, each with what stands before it: the name of a table and a dot, or nothing.
macro_rules! columns {
    ($of:literal; $first:ident $($name:ident)*) => {
        concat!($of, stringify!($first) $(, ", ", $of, stringify!($name))*)
    };
}
/// What `row::collection` reads, of tables `g` and `c`.
macro_rules! collection_columns {
    () => {
        "g.subscription, g.name AS group_name, c.name AS collection_name, \
         c.definition AS collection_definition, c.created AS collection_created, \
         c.enabled_since, c.version AS collection_version"
    };
}
/// What `row::job` reads, of tables `g`, `c`, `j` and `s`.
macro_rules! job_columns {
    () => {
        concat!(
            "g.subscription, g.name AS group_name, c.name AS collection_name, j.key, \
             j.name AS job_name, j.uid, j.created, j.version, j.definition, s.generation, ",
            crate::postgres::columns::state_columns!("s.")
        )
    };
}
/// What `row::state` reads.
macro_rules! state_columns {
    ($of:literal) => {
        crate::postgres::columns::columns!($of;
            lifecycle due used last_execution executions failures faulted finished)
    };
}
/// What `row::run` reads.
macro_rules! run_columns {
    ($of:literal) => {
        concat!(
            crate::postgres::columns::columns!($of; id job generation scheduled cause repeat),
            ", ",
            crate::postgres::columns::course_columns!($of)
        )
    };
}
/// What changes of a run while it is open.
macro_rules! course_columns {
    ($of:literal) => {
        crate::postgres::columns::columns!($of;
            role retry redelivery next_at first_started owner token lease_until)
    };
}
/// What `row::history` reads, without the number that an entry is given.
macro_rules! entry_columns {
    ($of:literal) => {
        crate::postgres::columns::columns!($of;
            started ended expected status message retry repeat role dns connect tls first_byte total)
    };
}
/// What `row::ledger` reads.
macro_rules! ledger_columns {
    ($of:literal) => {
        crate::postgres::columns::columns!($of;
            first_at last_at generation count cause disposition closed)
    };
}
pub(super) use {
    collection_columns, columns, course_columns, entry_columns, job_columns, ledger_columns,
    run_columns, state_columns,
};
