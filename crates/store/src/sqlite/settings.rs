//! Resource limits of the SQLite driver.

/// Resource limits of a SQLite store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteSettings {
    /// Number of reader threads for clients. Default: 2.
    pub readers: usize,
    /// Number of reader threads for reads that runs wait for. Default: 2.
    pub engine_readers: usize,
    /// Number of connections for reads on the thread of the caller. Default: 2.
    pub inline_readers: usize,
    /// Page cache of the writer in KiB. Default: 16 MiB.
    pub writer_cache_kib: u32,
    /// Page cache of each reader in KiB. Default: 16 MiB.
    pub reader_cache_kib: u32,
    /// Maximum number of queued edits, and of queued commits of the engine. Further ones fail as busy.
    /// Default: 4096.
    pub writes_waiting_max: usize,
    /// Maximum number of queued reads of clients, and of the engine. Further ones fail as busy. Default: 4096.
    pub reads_waiting_max: usize,
    /// Maximum size of the database in KiB, without its WAL. Writes that would exceed it fail as full.
    /// Default: no limit.
    pub size_max_kib: Option<u32>,
    /// Number of dirty rows, in memory and in the change log, that starts a flush to the tables; so do as
    /// many repeated changes in the log. A row takes about 200 bytes of memory. During a flush, the number
    /// may double. Default: 100,000.
    pub flush_threshold_rows: usize,
    /// The threads that do the work.
    pub threads: Threads,
}

/// The threads that carry out reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Threads of the store: group commit, and readers beside the writer.
    Background,
    /// The calling thread: every call is finished when it returns, in the order of the calls. For
    /// simulations that replay exactly.
    Caller,
}

impl Default for SqliteSettings {
    /// Larger page caches made no measurable difference with a million jobs: the operating system
    /// caches the file.
    fn default() -> SqliteSettings {
        SqliteSettings {
            readers: 2,
            engine_readers: 2,
            inline_readers: 2,
            writer_cache_kib: 16 * 1024,
            reader_cache_kib: 16 * 1024,
            writes_waiting_max: 4_096,
            reads_waiting_max: 4_096,
            size_max_kib: None,
            flush_threshold_rows: 100_000,
            threads: Threads::Background,
        }
    }
}
