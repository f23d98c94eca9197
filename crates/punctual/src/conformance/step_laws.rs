//! The table of the laws of debounce and of durable steps.

use futures_util::FutureExt;

use super::laws::Law;
use crate::engine::Capability;

/// The laws of debounce and of durable steps; they are among those of every engine.
pub(super) const STEP_LAWS: &[Law] = crate::__step_laws!(__table);

/// Hands the list of these laws to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __step_laws {
    ($then:ident $($with:expr)?) => {
        $crate::$then! {
            {$($with)?}
            debounce {
                the_last_content_runs[Debounce, Delay, Priority],
                max_wait_bounds_it[Debounce, Delay],
                an_event_while_it_runs_makes_one_more[Debounce, Delay],
                a_refreshed_job_leaves_no_record[Debounce, Delay, ListByState],
                a_resend_refreshes_once[Debounce, Delay],
                a_refresh_keeps_the_due_of_a_retry[Debounce, Delay],
                a_settled_holder_is_not_refreshed[Debounce, UniqueKeep],
                a_max_wait_out_of_range_is_refused[Debounce, Delay],
            }
            memos {
                a_kept_step_is_not_lost_with_its_worker[Memos],
                a_redrive_keeps_memos[Memos],
                an_old_token_keeps_nothing[Memos],
                memos_are_bounded[Memos],
                a_held_attempt_comes_back_with_its_signal[Memos, UniqueKeep],
                a_signal_before_the_wait_counts[Memos, Delay],
                a_wait_ends_at_its_instant[Memos],
                a_hold_counts_as_nothing[Memos, Groups],
                a_signal_that_cannot_count_says_so[Memos, Delay],
                a_waiting_attempt_obeys_edits[Memos, Expiry, CancelActive],
                explain_names_the_signal[Memos, Explain],
                an_import_brings_memos_and_waits[Memos, Import, Delay, HeldJobs],
            }
            signals {
                a_signal_is_an_effect[Memos, Effects],
                a_signal_of_an_effect_may_come_before_the_wait[Memos, Effects],
                a_signal_of_a_lost_lease_does_not_happen[Memos, Effects],
                a_repeated_settlement_signals_once[Memos, Effects],
                a_signal_that_reaches_no_job_is_ignored[Memos, Effects],
                a_hostile_signal_refuses_the_settle[Memos, Effects],
            }
            joins {
                a_join_ends_with_all_of_its_jobs[Memos, Flows],
                a_join_gives_its_slot_back_and_learns_of_cancels[Memos, Flows],
                a_join_ends_at_its_limit_with_what_there_is[Memos, Flows],
                a_worker_that_is_killed_in_a_join_sends_no_job_twice[Memos, Flows],
                a_join_outlives_workers_that_are_killed_while_it_waits[Memos, Flows],
                a_join_goes_on_without_a_job_that_is_gone[Memos, Flows],
            }
        }
    };
}
