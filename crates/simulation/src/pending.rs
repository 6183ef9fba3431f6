//! World options and checks of behavior that the engine does not have yet.

/// An option or a check that is switched off until the engine fulfils it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// Attempts panic.
    Panics,
    /// Writes fail while reads succeed.
    WriteOutages,
    /// Small limits of attempts: runs of a full host delay no others.
    SmallLimits,
    /// The runs of a dead node are taken over soon after their lease expired.
    TakeOver,
    /// Gate states are read again if their read took long.
    StaleGates,
    /// Occurrences that passed while the collection was disabled never run.
    HeldOccurrences,
    /// Nodes start late; what other nodes handled meanwhile is not missed.
    LateNodes,
    /// Connections take longer than leases, so that the send fence closes.
    SlowConnections,
    /// The definition of a job cannot be read.
    UnreadableJobs,
    /// Open runs go on with the new definition after an edit that does not change the schedule.
    RunsSurviveEdits,
}

impl Pending {
    /// Whether the engine fulfils it.
    pub(crate) fn is_on(self) -> bool {
        !matches!(self, Pending::SlowConnections | Pending::UnreadableJobs)
    }
}
