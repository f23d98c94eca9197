//! The table of the laws of shares, and of those of many jobs or shares.

use futures_util::FutureExt;

use super::laws::Law;
use crate::engine::Capability;

/// The laws of shares; they are among those of every engine.
pub(super) const SHARE_LAWS: &[Law] = crate::__share_laws!(__table);

/// Hands the list of laws of shares to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __share_laws {
    ($then:ident $($with:expr)?) => {
        $crate::$then! {
            {$($with)?}
            sizes {
                a_job_rescheduled_100_000_times_takes_no_room[Delay],
                a_queue_that_jobs_have_passed_takes_no_room,
                weights_hold_over_ten_thousand_starts[Shares],
                ten_thousand_shares_take_turns[Shares],
            }
            shares {
                a_flood_delays_a_single_job_by_one_turn[Shares],
                weights_hold_over_any_span[Shares],
                a_share_that_returns_has_no_credit[Shares],
                a_changed_weight_counts_at_once[Shares],
                a_share_keeps_its_own_order[Shares, Delay, Priority, StrictDueOrder],
                jobs_without_a_share_take_turns_too[Shares],
                jobs_without_a_share_that_return_have_no_credit[Shares],
                a_serial_group_within_a_share_stays_serial[Shares, Groups],
                a_group_may_have_jobs_of_several_shares[Shares, Groups],
                long_jobs_leave_the_next_slot_to_a_newcomer[Shares],
                a_better_priority_goes_before_any_turn[Shares, Priority],
                a_job_that_a_claim_took_counts_for_its_next_turn[Shares, Priority],
                a_purge_takes_jobs_of_shares_that_are_due_since[Shares, Delay],
                a_job_of_a_share_is_read_back_and_listed[Shares, ListByState],
                an_edit_leaves_no_place_behind[Shares, Delay, Priority, Expiry],
                a_suspect_of_a_share_runs_alone[Shares, Suspects],
                a_share_is_of_one_queue[Shares],
                explain_counts_the_turns_before[Shares, Explain],
                the_largest_shares_come_first[Shares],
                a_hostile_share_is_refused[Shares],
            }
            share_limits {
                no_more_of_a_share_are_active_than_allowed[Shares],
                a_lost_lease_frees_the_slot_of_its_share[Shares],
                a_share_at_its_limit_hides_no_other_share[Shares],
                a_freed_slot_of_a_share_wakes[Shares],
                no_window_of_a_share_has_more_than_its_rate[Shares],
                wake_at_is_when_a_share_opens[Shares],
                a_changed_limit_of_shares_counts_at_once[Shares],
                a_blocked_share_starts_nothing[Shares],
                a_claim_says_since_when_a_share_is_open[Shares],
                jobs_of_a_share_that_time_opened_are_late[Shares],
                a_block_ends_when_it_is_taken_back[Shares],
                all_blocked_shares_are_read[Shares],
                a_paused_share_starts_nothing_until_resumed[Shares, Explain],
                a_limit_of_the_queue_holds_over_all_shares[Shares, QueueLimits],
                explain_names_the_closed_share[Shares, Explain],
                share_settings_out_of_range_are_refused[Shares],
                a_queue_with_a_block_can_be_deleted[Shares],
                the_end_of_no_block_makes_no_queue[Shares],
            }
            share_pending {
                a_full_share_refuses_one_more[Shares, Delay, HeldJobs],
                every_way_to_leave_frees_a_place_of_a_share[Shares, Delay, HeldJobs, Expiry, Groups],
                a_replaced_job_gives_its_place_of_a_share[Shares, UniqueReplace],
                a_lost_lease_and_an_overflow_count_in_a_share[Shares],
                a_new_bound_counts_what_waits_in_a_share[Shares, Delay, HeldJobs, Groups],
                a_new_bound_counts_thousands_a_part_each_call[Shares, Delay],
                an_effect_goes_into_a_full_share[Shares, Effects],
                random_jobs_fill_shares_as_a_count_says[Shares, Delay, HeldJobs, Expiry, Groups, UniqueKeep, Priority, ListByState],
            }
        }
    };
}
