//! Column lists of the tables, shared by the statements that read and write them.

/// A comma-separated column list. `$of` qualifies each column, such as `"s."`; it may be empty.
macro_rules! columns {
    ($of:literal; $first:ident $($name:ident)*) => {
        concat!($of, stringify!($first) $(, ", ", $of, stringify!($name))*)
    };
}
/// The columns of `row::collection`, from tables `g` (groups) and `c` (collections).
macro_rules! collection_columns {
    () => {
        "g.subscription, g.name AS group_name, c.name AS collection_name, \
         c.definition AS collection_definition, c.created AS collection_created, \
         c.enabled_since, c.version AS collection_version"
    };
}
/// The columns of `row::job`, from tables `g`, `c`, `j` (jobs) and `s` (states).
macro_rules! job_columns {
    () => {
        concat!(
            "g.subscription, g.name AS group_name, c.name AS collection_name, ",
            crate::postgres::columns::job_of_columns!()
        )
    };
}
/// The columns of `row::job_of`, from tables `j` (jobs) and `s` (states).
macro_rules! job_of_columns {
    () => {
        concat!(
            "j.key, j.name AS job_name, j.uid, j.created, j.version, j.definition, s.generation, \
             coalesce(s.schedule_generation, s.generation) AS schedule_generation, \
             s.enabled_since AS job_enabled_since, ",
            crate::postgres::columns::state_columns!("s.")
        )
    };
}
/// The columns of `jobs_for_run::gate_state`, from tables `c` (collections), `s` (states) and `p` (pause).
macro_rules! gate_columns {
    () => {
        concat!(
            "s.generation, s.enabled, c.enabled AS collection_enabled, \
             coalesce(s.schedule_generation, s.generation) AS schedule_generation, \
             s.enabled_since AS job_enabled_since, c.enabled_since, ",
            crate::postgres::columns::pause_columns!(),
            ", ",
            crate::postgres::columns::state_columns!("s.")
        )
    };
}
/// The columns of `pause::pause`, from table `p` (pause), which has one row or none.
macro_rules! pause_columns {
    () => {
        "p.since AS pause_since, p.until AS pause_until, p.resumed AS pause_resumed"
    };
}
/// The columns of `row::collection_status`, from tables `c` (collections) and `p` (pause).
macro_rules! collection_status_columns {
    () => {
        concat!(
            "c.definition AS collection_definition, clock_timestamp() AS clock, ",
            crate::postgres::columns::pause_columns!()
        )
    };
}
/// The columns of `row::state`.
macro_rules! state_columns {
    ($of:literal) => {
        crate::postgres::columns::columns!($of;
            lifecycle due used last_execution executions failures faulted finished
            consecutive_failures skip_until)
    };
}
/// The columns of `row::run`.
macro_rules! run_columns {
    ($of:literal) => {
        concat!(
            crate::postgres::columns::columns!($of; id job generation scheduled cause repeat),
            ", ",
            crate::postgres::columns::progress_columns!($of)
        )
    };
}
/// The columns of a run that change while it is open: its progress and claim.
macro_rules! progress_columns {
    ($of:literal) => {
        crate::postgres::columns::columns!($of;
            role retry redelivery next_at first_started owner token lease_until waits_for)
    };
}
/// The columns of `row::history` without `sequence`, which the database generates.
macro_rules! entry_columns {
    ($of:literal) => {
        crate::postgres::columns::columns!($of;
            started ended expected status message retry repeat role dns connect tls first_byte total generation)
    };
}
/// The columns of `row::closed_run`.
macro_rules! closed_run_columns {
    ($of:literal) => {
        concat!(
            crate::postgres::columns::ledger_columns!($of),
            ", ",
            crate::postgres::columns::columns!($of; started ended attempts)
        )
    };
}
/// The columns of `row::ledger`.
macro_rules! ledger_columns {
    ($of:literal) => {
        crate::postgres::columns::columns!($of;
            first_at last_at generation count cause disposition closed)
    };
}
pub(super) use {
    closed_run_columns, collection_columns, collection_status_columns, columns, entry_columns,
    gate_columns, job_columns, job_of_columns, ledger_columns, pause_columns, progress_columns,
    run_columns, state_columns,
};
