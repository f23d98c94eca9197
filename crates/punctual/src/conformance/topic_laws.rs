//! The table of the laws of guards and of topics.

use futures_util::FutureExt;

use super::laws::Law;
use crate::engine::Capability;

/// The laws of guards and topics; they are among those of every engine.
pub(super) const TOPIC_LAWS: &[Law] = crate::__topic_laws!(__table);

/// Hands the list of these laws to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __topic_laws {
    ($then:ident $($with:expr)?) => {
        $crate::$then! {
            {$($with)?}
            guards {
                a_guard_that_holds_lets_its_effects_happen[Guards, Records, Delay],
                a_guard_that_does_not_hold_changes_nothing[Guards, Records, UniqueKeep],
                a_record_and_jobs_advance_together[Guards, Records],
                the_first_writer_of_a_record_wins[Guards, Records],
                a_guarded_settle_compares_in_its_step[Guards, Records, Effects],
                a_guarded_settle_without_effects_compares_too[Guards, Records],
                a_repeated_guarded_settle_is_repeated[Guards, Records, Effects],
                an_old_token_is_refused_before_the_guard[Guards, Records],
                a_guard_is_of_a_namespace[Guards, Records],
                a_full_queue_refuses_one_guarded_job[Guards, MaxPending],
                a_cancel_is_an_effect[Guards, UniqueKeep, CancelActive, Effects, Delay],
                a_hostile_guard_is_refused[Guards, Records],
            }
            topics {
                a_publish_reaches_every_match_once[Guards, Records],
                a_publish_meets_one_version[Guards, Records],
                a_repeated_publish_makes_no_copy[Guards, Records],
                a_message_without_a_match_says_so[Guards, Records],
                a_full_subscriber_loses_no_other[Guards, Records, MaxPending],
                a_subscription_cancels_by_key[Guards, Records, UniqueKeep, Delay],
                patterns_match_as_the_table_says[Guards, Records],
                filters_pass_as_the_table_says[Guards, Records, Groups, Delay],
                subscriptions_are_bounded[Guards, Records],
                a_record_of_topics_holds_subscriptions[Guards, Records],
            }
        }
    };
}
