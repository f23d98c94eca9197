//! The table of the laws of debounce.

use futures_util::FutureExt;

use super::laws::Law;
use crate::engine::Capability;

/// The laws of debounce; they are among those of every engine.
pub(super) const STEP_LAWS: &[Law] = crate::__step_laws!(__table);

/// Hands the list of these laws to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __step_laws {
    ($then:ident $($with:expr)?) => {
        $crate::$then! {
            {$($with)?}
            debounce {
                the_last_content_runs[Debounce, Delay],
                max_wait_bounds_it[Debounce, Delay],
                an_event_while_it_runs_makes_one_more[Debounce, Delay],
                a_refreshed_job_leaves_no_record[Debounce, Delay, ListByState],
                a_resend_refreshes_once[Debounce, Delay],
                a_refresh_keeps_the_due_of_a_retry[Debounce, Delay],
                a_settled_holder_is_not_refreshed[Debounce, UniqueKeep],
                a_max_wait_out_of_range_is_refused[Debounce, Delay],
            }
        }
    };
}
