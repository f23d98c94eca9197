//! The table of the laws of flows.

use futures_util::FutureExt;

use super::laws::Law;
use crate::engine::Capability;

/// The laws of flows; they are among those of every engine.
pub(super) const FLOW_LAWS: &[Law] = crate::__flow_laws!(__table);

/// Hands the list of laws of flows to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __flow_laws {
    ($then:ident $($with:expr)?) => {
        $crate::$then! {
            {$($with)?}
            flows {
                a_step_waits_for_all[Flows, Explain],
                a_step_waits_for_an_end_as_asked[Flows],
                a_parent_that_has_settled_counts[Flows],
                an_unknown_parent_is_refused[Flows],
                any_job_may_wait_for_another[Flows, Explain],
                a_callback_fires_once[Flows, Explain],
                callbacks_fire_by_how_a_flow_ends[Flows],
                a_skipped_step_is_no_failure[Flows],
                counts_are_those_of_a_recount[Flows, CancelActive],
                a_redriven_step_reopens_its_flow[Flows],
                a_retry_from_a_step_runs_what_depends_on_it[Flows],
                a_cancelled_flow_stops_its_steps[Flows, CancelActive],
                a_failure_may_cancel_the_rest[Flows],
                a_failure_may_be_passed_over[Flows],
                a_cascade_is_bounded_per_call[Flows],
                claims_alone_do_what_is_left_of_a_cascade[Flows],
                a_large_flow_holds_up_no_other[Flows],
                what_is_left_of_a_cascade_wakes_a_worker[Flows],
                results_are_kept_with_the_flow[Flows],
                a_step_is_due_when_it_may_run[Flows, Delay],
                a_step_may_wait_for_a_name_too[Flows, HeldJobs, Effects],
            }
            flow_plans {
                a_cycle_is_refused[Flows],
                a_plan_sent_in_part_never_runs[Flows, Explain],
                a_part_that_lost_a_step_is_sealed_or_cancelled_at_once[Flows],
                the_same_plan_again_is_a_duplicate[Flows],
                another_plan_under_its_name_is_refused[Flows],
                a_plan_that_differs_in_an_option_is_another_one[Flows, Delay, UniqueKeep, HeldJobs, Priority],
                a_plan_without_its_callback_is_another_one[Flows],
                the_id_of_a_step_is_reserved[Flows],
                a_flow_grows_while_it_runs[Flows, Effects],
                a_flow_whose_rest_is_cancelled_does_not_grow[Flows],
                a_flow_is_forgotten_after_its_time[Flows],
            }
            flow_retries {
                a_retry_takes_a_cancel_back[Flows],
                a_retry_runs_the_rest_too[Flows],
                a_step_that_waits_again_keeps_what_it_waits_for[Flows, HeldJobs, Delay],
                a_redrive_ends_the_cascade_of_before[Flows],
                a_step_that_ended_before_the_rest_came_runs_again[Flows],
                a_flow_outlives_what_waits_for_its_callback[Flows],
                a_freed_step_is_held_again_with_its_parent[Flows],
                a_deleted_callback_does_not_read_as_fired[Flows],
            }
            flow_gone {
                a_retry_reports_steps_that_are_gone[Flows],
                a_retry_reports_how_many_steps_are_gone[Flows],
                a_retry_from_a_step_reports_what_is_gone[Flows],
                a_retry_reports_steps_whose_key_is_held[Flows, UniqueKeep, Delay],
                a_retry_by_a_filter_runs_what_it_matches[Flows],
                a_retry_reports_steps_of_other_flows[Flows, UniqueKeep, Delay],
                a_done_flow_stays_done_when_it_is_retried[Flows],
                a_done_flow_that_goes_on_counts_what_is_gone[Flows],
                a_retry_from_a_step_reports_what_is_behind_it[Flows],
                a_retry_from_a_step_reports_many_that_are_gone[Flows],
                a_retry_by_a_filter_reports_what_is_gone[Flows, UniqueKeep, Delay],
                a_gone_step_that_is_not_needed_is_no_failure[Flows],
                a_held_step_that_is_not_needed_is_no_failure[Flows, UniqueKeep, Delay],
                a_step_that_is_gone_does_not_end_growth[Flows, Effects],
                a_retry_from_a_step_that_cannot_run_says_why[Flows, Delay],
            }
            flow_parents {
                parents_outside_of_a_flow_are_named[Flows, Explain, Delay],
                a_forgotten_parent_is_shown_as_it_ended[Flows, Delay],
            }
            flow_ends {
                a_cancelled_parent_is_known_to_its_watchers[Flows, CancelActive],
                an_expired_parent_is_known_to_its_watchers[Flows, Expiry, Delay],
                a_purged_parent_is_known_to_its_watchers[Flows],
                a_poisoned_parent_is_known_to_its_watchers[Flows, Suspects],
                a_replaced_parent_is_known_to_its_watchers[Flows, UniqueReplace],
                an_overflowed_parent_is_known_to_its_watchers[Flows, MaxPending],
                an_exhausted_parent_is_known_to_its_watchers[Flows],
                a_completed_parent_is_known_to_its_watchers[Flows],
            }
            flow_imports {
                a_flow_goes_on_where_it_was_exported[Flows, Import, Delay],
                a_settled_flow_comes_over_as_it_was[Flows, Import, Delay],
                a_step_waits_for_more_steps_whose_jobs_are_gone[Flows, Import, Delay],
                a_gone_step_comes_over_with_what_it_waited_for[Flows, Import, Delay],
                an_import_of_a_flow_again_changes_nothing[Flows, Import, Delay],
                a_flow_that_came_in_part_never_runs[Flows, Import, Delay],
                a_cancelled_flow_comes_over_cancelled[Flows, Import, Delay],
                a_step_that_waits_for_a_signal_comes_over[Flows, Import, Memos, Delay, HeldJobs],
                a_job_of_no_flow_comes_over_with_what_it_waits_for[Flows, Import, Delay],
                a_malformed_import_of_a_flow_is_refused[Flows, Import],
            }
            flow_histories {
                random_flows_agree_with_a_model[Flows, CancelActive],
                random_flows_move_half_way[Flows, CancelActive, Import, Delay],
            }
        }
    };
}
