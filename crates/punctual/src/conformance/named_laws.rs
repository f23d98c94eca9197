//! The table of the laws of named limits.

use futures_util::FutureExt;

use super::laws::Law;
use crate::engine::Capability;

/// The laws of named limits; they are among those of every engine.
pub(super) const NAMED_LAWS: &[Law] = crate::__named_laws!(__table);

/// Hands the list of laws of named limits to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __named_laws {
    ($then:ident $($with:expr)?) => {
        $crate::$then! {
            {$($with)?}
            named {
                a_limit_holds_over_two_queues[NamedLimits],
                every_end_frees_the_slot[NamedLimits],
                a_lost_lease_frees_the_slot_of_its_limits[NamedLimits],
                a_freed_slot_wakes_the_other_queue[NamedLimits],
                a_queue_that_came_late_is_woken_too[NamedLimits],
                no_window_of_a_limit_has_more_units[NamedLimits],
                a_smooth_limit_spaces_units[NamedLimits],
                a_cost_counts_as_so_many_units[NamedLimits],
                a_costly_job_is_not_overtaken_for_ever[NamedLimits],
                a_cost_over_the_rate_starts_alone[NamedLimits],
                a_job_starts_when_all_its_limits_are_open[NamedLimits],
                a_job_at_a_closed_limit_leaves_room_at_others[NamedLimits],
                a_limit_hides_no_other_job[NamedLimits],
                a_limited_job_keeps_its_place[NamedLimits, Priority, StrictDueOrder],
                a_name_without_settings_limits_nothing[NamedLimits],
                settings_of_a_family_hold_for_each_key[NamedLimits],
                a_limit_of_a_group_keeps_its_order[NamedLimits, Groups],
                a_limit_and_shares_hold_together[NamedLimits, Shares],
                a_suspect_waits_at_its_limit_too[NamedLimits, Suspects],
            }
            named_calls {
                a_block_starts_nothing_and_counts_no_attempt[NamedLimits],
                a_block_of_a_limit_ends_when_taken_back[NamedLimits],
                a_changed_limit_counts_at_once_for_waiting_jobs[NamedLimits],
                a_changed_family_lets_all_its_keys_go[NamedLimits],
                wake_at_is_when_a_named_limit_opens[NamedLimits],
                a_queue_with_named_limits_is_not_claimed_ahead[NamedLimits],
                lateness_counts_from_the_opening[NamedLimits],
                jobs_of_a_limit_that_time_opened_are_late[NamedLimits],
                a_job_that_another_limit_keeps_back_is_not_late[NamedLimits],
                a_job_behind_one_that_is_kept_back_is_late[NamedLimits],
                explain_names_the_closed_named_limit[NamedLimits, Explain],
                waiting_jobs_are_listed_and_edited[NamedLimits, ListByState],
                jobs_of_a_limit_are_listed[NamedLimits, Groups, ListByState],
                waiting_jobs_expire_and_are_purged[NamedLimits, Expiry],
                a_job_with_limits_is_read_back[NamedLimits],
                limits_are_listed_with_how_they_stand[NamedLimits],
                limits_of_another_namespace_are_others[NamedLimits],
                hostile_limits_are_refused[NamedLimits],
                settings_of_limits_out_of_range_are_refused[NamedLimits],
            }
            named_full {
                a_full_limit_refuses_new_jobs[NamedLimits],
                a_full_limit_refuses_its_own_jobs_only[NamedLimits],
                a_refused_job_changes_nothing[NamedLimits, UniqueReplace, MaxPending],
                a_full_limit_refuses_only_what_is_due[NamedLimits, Delay, HeldJobs, Effects],
                a_new_job_stops_the_oldest_running_one[NamedLimits, CancelActive],
                only_running_jobs_are_asked_to_stop[NamedLimits, Delay, CancelActive],
                only_a_new_job_stops_a_running_one[NamedLimits, Delay, Effects],
                one_job_is_stopped_for_two_limits[NamedLimits],
                explain_says_what_a_full_limit_does[NamedLimits, Explain],
            }
            named_histories {
                random_limits_agree_with_a_model[NamedLimits, Explain, Delay, Groups, Shares],
            }
        }
    };
}
