//! The table of the laws of clears that come before their jobs.

use futures_util::FutureExt;

use super::laws::Law;
use crate::engine::Capability;

/// The laws of early clears; they are among those of every engine.
pub(super) const CLEAR_LAWS: &[Law] = crate::__clear_laws!(__table);

/// Hands the list of these laws to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __clear_laws {
    ($then:ident $($with:expr)?) => {
        $crate::$then! {
            {$($with)?}
            early_clears {
                a_clear_before_its_job_counts_when_it_comes[HeldJobs, Effects],
                a_clear_without_a_settle_counts_too[HeldJobs, Guards],
                an_early_clear_is_of_one_job_and_one_name[HeldJobs, Effects],
                an_early_clear_counts_for_an_hour[HeldJobs, Effects],
                the_same_clear_again_counts_an_hour_more[HeldJobs, Effects],
                an_early_clear_is_used_up[HeldJobs, Effects, Delay],
                an_early_clear_makes_no_job_early[HeldJobs, Effects, Delay],
                an_early_clear_lets_an_import_run[HeldJobs, Effects, Import, Delay],
                an_early_clear_waits_for_jobs_of_one_call[HeldJobs, Effects],
                an_early_clear_is_of_a_namespace[HeldJobs, Guards],
                a_clear_for_elsewhere_counts_too[HeldJobs, Effects],
                the_oldest_early_clears_give_way[HeldJobs, Guards],
                a_hostile_clear_is_refused[HeldJobs, Guards],
            }
        }
    };
}
