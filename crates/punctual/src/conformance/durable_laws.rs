//! The table of the laws of what a crash and a close keep.

use futures_util::FutureExt;

use super::laws::Law;
use crate::engine::Capability;

/// The laws of engines whose harness can crash and reopen them.
pub const DURABLE_LAWS: &[Law] = crate::__durable_laws!(__table);

/// Hands the list of durable laws to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __durable_laws {
    ($then:ident $($with:expr)?) => {
        $crate::$then! {
            {$($with)?}
            durable {
                acknowledged_is_kept_over_a_crash,
                acknowledged_is_kept_over_a_close,
                a_tombstone_outlives_a_crash,
                a_payload_update_outlives_a_crash[Delay],
                effects_outlive_a_crash,
                leases_with_the_engine_are_crashes_after_a_crash,
                leases_elsewhere_outlive_a_crash,
                a_close_keeps_leases,
                crashes_of_the_process_make_a_suspect,
                keys_and_groups_outlive_a_crash,
                control_outlives_a_crash,
                time_does_not_step_back_over_a_crash,
                what_fell_due_while_down_is_claimed,
                what_is_gone_stays_gone,
                what_ends_by_itself_wakes_after_a_close,
                ends_outlive_a_crash[Ends],
                ends_outlive_a_close[Ends],
                limits_outlive_a_crash[QueueLimits],
                shares_outlive_a_crash[Shares],
                named_limits_outlive_a_crash[NamedLimits],
                schedules_outlive_a_crash[Schedules],
                an_outage_after_a_move_loses_no_run[Schedules],
                schedules_outlive_a_close[Schedules],
                flows_outlive_a_crash[Flows],
                flows_outlive_a_close[Flows],
                early_clears_outlive_a_crash[HeldJobs, Effects],
                a_bound_of_shares_outlives_a_crash[Shares, HeldJobs],
            }
        }
    };
}
