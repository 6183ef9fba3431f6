//! How much a store may take of the machine.

/// How much a store may take of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteSettings {
    /// Threads that read.
    pub readers: usize,
    /// Connections for what is read on the thread that asks.
    pub inline_readers: usize,
    /// Pages that the writer keeps in memory, in KiB.
    pub writer_cache_kib: u32,
    /// Pages that each reader keeps in memory, in KiB.
    pub reader_cache_kib: u32,
    /// Edits that may wait for the writer, and as many decisions of the engine; one more is answered
    /// that the store is busy.
    pub writes_waiting_max: usize,
    /// Requests that may wait for a reader; one more is answered that the store is busy.
    pub reads_waiting_max: usize,
    /// How large the database may grow, in KiB; what would make it larger is answered that the
    /// store is full. Its log comes on top.
    pub size_max_kib: Option<u32>,
    /// Rows of jobs that may be changed in memory and in the log before they are brought into their
    /// table. A row takes about 200 bytes of memory; up to twice as many may be there for a while.
    pub flush_threshold_rows: usize,
}

impl Default for SqliteSettings {
    /// Larger caches save no processor time that could be measured with a million jobs: what they do
    /// not have, the system has.
    fn default() -> SqliteSettings {
        SqliteSettings {
            readers: 2,
            inline_readers: 2,
            writer_cache_kib: 16 * 1024,
            reader_cache_kib: 16 * 1024,
            writes_waiting_max: 4_096,
            reads_waiting_max: 4_096,
            size_max_kib: None,
            flush_threshold_rows: 100_000,
        }
    }
}
