//! What every store must do, as tests. Each takes a fresh [`Subject`]; [`conformance_tests`] makes
//! them tests of a crate.
//!
//! [`conformance_tests`]: crate::conformance_tests

pub mod collections;
pub mod ends;
pub mod gate_states;
pub mod history;
pub mod invariant_scan;
pub mod jobs;
pub mod runs;
mod sample;
pub mod tokens;

use std::sync::Arc;
use std::time::Duration;

use crate::store::Store;

/// A fresh store, and a way to let time pass for it.
pub struct Subject {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Lets at least as much time pass on the clock of the store: moves a clock that stands still,
    /// or waits for one that does not.
    pub pass: Box<dyn Fn(Duration) -> Passing + Send + Sync>,
}

/// Time that is passing.
pub type Passing = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Makes the whole suite tests of the crate it is called in: `$make` gives a fresh subject, and
/// `$block_on` runs a future to its end.
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr, $block_on:expr) => {
        $crate::conformance_tests!(@tests $make, $block_on,
            collections: [
                a_group_is_made_changed_listed_and_deleted_with_what_is_in_it,
                a_collection_is_made_replaced_and_deleted,
                a_collection_knows_since_when_it_is_enabled,
                names_are_compared_without_case_and_keep_their_first_spelling,
                collections_are_listed_by_group_and_name,
                a_refused_edit_changes_nothing,
                a_collection_is_decided_on_with_the_facts_of_its_jobs,
                racing_puts_cannot_both_be_the_last_job,
            ]
            jobs: [
                a_job_needs_a_collection,
                jobs_are_read_with_the_state_of_their_collection,
                a_job_is_found_by_the_tags_of_its_last_edit,
                a_job_is_made_replaced_and_deleted,
                every_member_of_a_definition_comes_back,
                jobs_are_listed_by_name_and_paged,
                jobs_are_found_by_state_text_and_tag,
                a_search_ends_in_time_and_goes_on_where_it_ended,
                a_job_that_is_made_again_is_another_one,
                deleting_a_collection_deletes_its_jobs,
                a_job_is_found_by_its_key,
            ]
            runs: [
                only_active_enabled_jobs_in_enabled_collections_are_due,
                beginning_an_occurrence_moves_the_job_on,
                what_has_been_edited_is_not_begun,
                a_later_occurrence_may_run_than_the_one_that_was_due,
                an_occurrence_is_begun_once,
                occurrences_are_passed_over_with_a_record,
                a_run_is_continued_and_finished_by_its_token_only,
                a_run_without_a_claim_is_claimed_once,
                a_run_that_has_moved_on_is_not_claimed_as_it_was,
                an_expired_claim_is_taken_over_and_the_old_token_is_worth_nothing,
                a_claim_is_extended_by_its_token,
                a_manual_run_is_opened_beside_the_schedule,
                an_edit_closes_runs_that_nobody_works_on,
                an_edit_records_what_it_passes_over,
                runs_of_a_deleted_job_are_gone,
                runs_of_disabled_collections_are_not_claimable,
                stale_writes_do_not_keep_others_from_being_carried_out,
                writes_about_one_run_in_one_batch_follow_each_other,
                jobs_are_told_of_in_batches,
                all_claims_can_be_let_expire_at_once,
            ]
            ends: [
                the_last_run_finishes_a_job_unless_it_was_edited_meanwhile,
                a_job_ends_with_the_last_of_its_open_runs,
                a_job_with_an_open_run_is_not_ended_by_moving_on,
            ]
            gate_states: [
                an_edit_is_seen_as_soon_as_it_is_answered,
                what_is_deleted_stands_nowhere,
            ]
            history: [
                history_is_listed_newest_first_filtered_and_paged,
                history_of_what_is_not_there,
                the_ledger_is_read_by_instants,
                pruning_keeps_the_young_and_the_newest,
                pruning_is_done_in_small_steps,
                finished_jobs_are_removed_in_time,
                texts_of_any_kind_survive,
                how_long_the_parts_of_an_attempt_took_is_kept,
                events_of_all_jobs_follow_each_other,
                ledger_events_carry_the_state_of_their_job,
            ]
            invariant_scan: [
                every_job_is_surveyed_once_with_what_must_agree,
                what_is_deleted_is_surveyed_no_more,
            ]
            tokens: [
                tokens_are_kept_found_and_listed,
                tokens_are_revoked_and_deleted,
                the_last_use_of_a_token_is_noted,
            ]
        );
    };
    (@tests $make:expr, $block_on:expr, $($module:ident: [$($name:ident,)*])*) => {
        $($(
            #[test]
            fn $name() {
                let make = $make;
                $block_on(async { $crate::conformance::$module::$name(make().await).await });
            }
        )*)*
    };
}
