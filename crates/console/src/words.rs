//! Names of the API in words.

/// The `disposition` of an occurrence, as a state.
pub(crate) fn disposition(name: &str) -> &str {
    match name {
        "Completed" => "Succeeded",
        "SkippedOverlap" => "Skipped (overlap)",
        "SkippedDisabled" => "Skipped (disabled)",
        "SkippedQuota" => "Skipped (quota)",
        "SkippedPaused" => "Skipped (paused)",
        "SkippedByRequest" => "Skipped (on request)",
        "WillBeSkipped" => "Will be skipped",
        "JobDisabled" => "Job disabled",
        "CollectionDisabled" => "Collection disabled",
        "NotKept" => "No record",
        name => name,
    }
}

/// Reason of a disposition, for people who do not know its name; empty where the name says it all.
pub(crate) fn disposition_reason(name: &str) -> &'static str {
    match name {
        "SkippedOverlap" => "An earlier run was in flight or waited for a retry",
        "SkippedDisabled" => "The job or its collection was disabled",
        "SkippedQuota" => "Too many runs of the job were open",
        "SkippedPaused" => "Everything was paused",
        "SkippedByRequest" | "WillBeSkipped" => "A user requested to skip it",
        "Missed" => "No node could run it at its scheduled time",
        "Superseded" => "An edit changed the schedule",
        "NotKept" => "Another definition, or deleted by retention",
        "JobDisabled" => "Would run if the job were enabled",
        "CollectionDisabled" => "Would run if the collection were enabled",
        _ => "",
    }
}
