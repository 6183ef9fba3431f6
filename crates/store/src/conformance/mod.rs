//! The conformance suite: tests that every store must pass. Each test takes a new [`Subject`];
//! [`conformance_tests`] generates the test functions.
//!
//! [`conformance_tests`]: crate::conformance_tests

pub mod claims;
pub mod collections;
pub mod completion;
pub mod earlier_definitions;
pub mod edits;
pub mod gate_states;
pub mod history;
pub mod invariant_scan;
pub mod jobs;
pub mod notes;
pub mod overview;
pub mod parked_runs;
pub mod pauses;
pub mod run_reports;
pub mod runs;
mod sample;
pub mod sessions;
pub mod tokens;

use std::sync::Arc;
use std::time::Duration;

use crate::store::Store;

/// An empty store, and control over its clock.
pub struct Subject {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// Advances the clock of the store by at least the given duration: sets a manual clock, or shifts
    /// the stored lease times.
    pub advance_clock: Box<dyn Fn(Duration) -> ClockAdvance + Send + Sync>,
}

/// Completes when the clock has advanced.
pub type ClockAdvance = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Generates a test function for each test of the suite. `$new_subject` is an async function that
/// returns a [`Subject`](crate::conformance::Subject); `$block_on` runs a future to completion.
#[macro_export]
macro_rules! conformance_tests {
    ($new_subject:expr, $block_on:expr) => {
        $crate::conformance_tests!(@tests $new_subject, $block_on,
            collections: [
                a_group_is_created_replaced_listed_and_deleted_with_its_contents,
                the_groups_of_a_subscription_are_limited_and_paged,
                a_collection_is_created_replaced_and_deleted,
                enabled_since_changes_only_when_a_collection_is_enabled,
                names_are_case_insensitive_and_keep_their_first_spelling,
                collections_are_listed_by_group_and_name,
                a_refused_edit_changes_nothing,
                an_edit_of_a_collection_sees_the_facts_of_its_jobs,
                concurrent_puts_cannot_exceed_the_quota_of_jobs,
            ]
            jobs: [
                a_job_needs_a_collection,
                jobs_are_read_with_the_state_of_their_collection,
                a_job_is_found_by_the_tags_of_its_last_edit,
                a_job_is_created_replaced_and_deleted,
                every_member_of_a_definition_round_trips,
                jobs_are_listed_by_name_and_paged,
                jobs_are_found_by_state_text_and_tag,
                a_search_scans_a_limited_number_of_jobs_and_resumes,
                a_recreated_job_shares_nothing_with_the_deleted_one,
                deleting_a_collection_deletes_its_jobs,
                a_job_is_found_by_its_key,
            ]
            runs: [
                only_active_enabled_jobs_in_enabled_collections_are_due,
                beginning_an_occurrence_advances_the_job,
                a_begin_that_precedes_an_edit_is_stale,
                a_later_occurrence_than_the_due_one_may_run,
                an_occurrence_is_begun_once,
                skipped_occurrences_are_recorded,
                a_manual_run_is_opened_beside_the_schedule,
                an_edit_closes_unclaimed_runs,
                an_edit_records_the_occurrences_it_closes,
                deleting_a_job_deletes_its_runs,
                runs_of_disabled_collections_are_not_claimable,
                a_stale_write_does_not_affect_the_others_of_its_batch,
                writes_of_a_batch_are_applied_in_order,
                jobs_for_run_and_gate_states_are_read_in_bulk,
                the_summary_of_open_runs_counts_all_and_lists_the_first_scheduled,
                each_position_is_answered_when_a_job_is_named_twice,
                two_runs_of_one_job_finish_in_one_batch,
            ]
            claims: [
                only_the_holder_of_the_fencing_token_continues_or_finishes_a_run,
                a_kept_claim_has_a_new_token_and_expires_like_any_other,
                an_unclaimed_run_is_claimed_once,
                an_expired_claim_is_taken_over_and_the_old_token_is_fenced_off,
                a_claim_based_on_outdated_progress_is_stale,
                the_holder_of_the_token_renews_its_lease,
                renewals_of_leases_extend_held_claims_and_report_lost_ones,
                expire_claims_releases_all_runs_at_once,
                a_heartbeat_returns_the_earliest_start_of_the_other_nodes_in_service,
            ]
            parked_runs: [
                a_parked_occurrence_advances_its_job_and_is_not_claimable,
                a_run_is_parked_until_it_is_claimed,
                a_run_of_a_crashed_node_is_parked_with_its_progress,
                a_run_of_an_edited_job_is_not_parked,
                an_edit_makes_parked_runs_claimable,
                parked_runs_of_disabled_collections_are_held,
            ]
            pauses: [
                a_pause_is_kept_replaced_and_ended,
                a_refused_edit_leaves_the_pause_as_it_was,
                nothing_is_due_claimable_or_begun_during_a_pause,
                a_pause_ends_by_itself_at_its_time,
                gate_states_and_jobs_for_run_carry_the_newest_pause,
                edits_of_jobs_see_the_pause,
            ]
            completion: [
                the_last_run_completes_a_job_unless_it_was_edited,
                a_job_completes_with_the_last_of_its_open_runs,
                advancing_does_not_complete_a_job_with_an_open_run,
                a_finished_job_that_runs_once_more_follows_the_outcome,
                consecutive_failures_count_failed_runs_since_the_last_success,
            ]
            edits: [
                an_edit_that_keeps_the_schedule_keeps_its_runs,
                runs_keep_a_requested_skip_and_no_skipped_occurrence_begins,
                a_superseded_run_does_not_complete_its_job,
                an_edit_of_the_schedule_keeps_manual_runs,
                a_disabled_job_holds_its_scheduled_runs,
                an_occurrence_that_did_not_run_gives_its_use_of_the_count_back,
                a_claim_may_change_the_progress_that_was_read,
                attempts_record_the_generation_of_their_definition,
            ]
            gate_states: [
                gate_states_reflect_every_acknowledged_edit,
                deleted_jobs_have_no_gate_state,
            ]
            history: [
                history_is_listed_newest_first_filtered_and_paged,
                history_of_a_missing_job_or_collection,
                the_ledger_is_read_by_range_of_scheduled_times,
                pruning_applies_the_limits_of_age_and_count,
                pruning_deletes_at_most_the_given_number_of_rows,
                finished_jobs_are_removed_after_their_retention_period,
                texts_of_any_kind_round_trip,
                the_timing_of_an_attempt_round_trips,
                events_of_all_jobs_are_read_in_order_from_any_position,
                ledger_events_carry_the_state_of_their_job,
            ]
            run_reports: [
                the_newest_runs_of_many_jobs_are_read_at_once,
                the_attempts_of_a_run_and_of_its_error_action_are_listed_apart,
                the_last_attempt_of_an_old_run_is_listed,
                runs_of_all_jobs_are_listed_newest_first,
                a_list_of_runs_passes_over_those_of_deleted_jobs,
                a_list_of_runs_covers_only_the_given_scopes,
                a_list_of_runs_examines_a_limited_number_of_rows_and_resumes,
                open_runs_are_listed_with_their_attempts,
                open_runs_are_counted_by_scope,
                closed_runs_are_counted_by_time_and_collection,
                writes_that_change_nothing_are_not_counted,
                counts_of_runs_are_removed_after_eight_days,
            ]
            notes: [
                a_note_is_stored_with_the_action_of_its_edit,
                notes_of_collections_are_listed_with_those_of_jobs,
                notes_are_paged,
                notes_of_a_collection_are_found_among_newer_ones_of_others,
                notes_of_a_missing_job_or_collection,
                a_rejected_edit_stores_no_note,
                the_newest_notes_of_a_resource_are_kept,
                notes_are_deleted_with_their_job_or_collection,
                notes_expire_with_the_history,
                pauses_have_notes_about_all_jobs,
            ]
            earlier_definitions: [
                a_definition_that_runs_may_have_used_is_retained,
                the_newest_earlier_definitions_of_a_job_are_retained,
                earlier_definitions_are_deleted_with_their_job_and_the_history,
            ]
            invariant_scan: [
                every_job_is_scanned_once_with_consistent_values,
                deleted_jobs_are_not_scanned,
            ]
            overview: [
                collections_of_a_scope_are_listed_by_path_with_their_jobs,
                a_search_of_several_collections_finds_every_match_once,
                a_search_returns_every_job_of_a_matching_collection,
                disabled_failing_and_finished_jobs_are_found_without_a_scan,
                matches_have_the_current_state_of_their_job,
                jobs_are_read_by_their_keys,
                the_states_of_all_jobs_are_scanned_in_pages,
                the_texts_of_all_jobs_are_scanned_by_name_and_those_of_newer_jobs_by_key,
                the_schedules_of_active_jobs_are_scanned_in_pages,
            ]
            tokens: [
                tokens_are_stored_found_and_listed,
                tokens_are_revoked_and_deleted,
                the_latest_use_of_a_token_is_recorded,
            ]
            sessions: [
                sessions_are_stored_found_and_deleted,
                the_sessions_of_one_identity_are_limited,
                retention_removes_expired_sessions,
            ]
        );
    };
    (@tests $new_subject:expr, $block_on:expr, $($module:ident: [$($name:ident,)*])*) => {
        $($(
            #[test]
            fn $name() {
                let new_subject = $new_subject;
                $block_on(async { $crate::conformance::$module::$name(new_subject().await).await });
            }
        )*)*
    };
}
