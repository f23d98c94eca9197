//! The table of all laws.

use std::fmt;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::case::Case;
use super::clear_laws::CLEAR_LAWS;
use super::flow_laws::FLOW_LAWS;
use super::named_laws::NAMED_LAWS;
use super::share_laws::SHARE_LAWS;
use super::step_laws::STEP_LAWS;
use super::topic_laws::TOPIC_LAWS;
use crate::engine::Capability;

/// One law: a fact that an engine keeps, and the test of it.
#[derive(Clone, Copy)]
pub struct Law {
    /// Its topic and the fact, such as `lease::an_old_token_settles_nothing`.
    pub name: &'static str,
    /// The capabilities that it is about; it runs where an engine claims all of them.
    pub needs: &'static [Capability],
    pub(super) run: fn(Case) -> BoxFuture<'static, ()>,
}

impl fmt::Debug for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The laws of every engine.
pub const LAWS: &[Law] = &joined::<
    {
        OTHERS.len()
            + FLOW_LAWS.len()
            + STEP_LAWS.len()
            + SHARE_LAWS.len()
            + NAMED_LAWS.len()
            + TOPIC_LAWS.len()
            + CLEAR_LAWS.len()
    },
>(&[
    OTHERS, FLOW_LAWS, STEP_LAWS, SHARE_LAWS, NAMED_LAWS, TOPIC_LAWS, CLEAR_LAWS,
]);

/// All but those of flows, steps, shares, named limits, topics and early clears.
const OTHERS: &[Law] = crate::__laws!(__table);

const fn joined<const N: usize>(lists: &[&[Law]]) -> [Law; N] {
    let (mut all, mut nth, mut list) = ([OTHERS[0]; N], 0, 0);
    while list < lists.len() {
        let mut law = 0;
        while law < lists[list].len() {
            all[nth] = lists[list][law];
            (nth, law) = (nth + 1, law + 1);
        }
        list += 1;
    }
    all
}

/// Hands the list of laws to another macro: the one place that names them all.
#[doc(hidden)]
#[macro_export]
macro_rules! __laws {
    ($then:ident $($with:expr)?) => {
        $crate::$then! {
            {$($with)?}
            enqueue {
                a_job_is_read_back_as_sent[Delay, Priority, UniqueReplace, Groups, HeldJobs, Expiry],
                every_retry_policy_is_kept,
                receipts_come_in_the_order_sent[Delay],
                jobs_of_a_call_stay_in_their_queues[Delay, HeldJobs],
                the_same_id_again_is_a_duplicate[Delay],
                the_same_id_within_a_call_is_a_duplicate,
                other_content_under_a_known_id_is_a_conflict,
                other_settings_under_a_known_id_are_a_duplicate[Delay, Priority],
                another_trace_under_a_known_id_is_a_duplicate,
                a_duplicate_of_an_active_job_leaves_it_alone,
                a_settled_job_is_a_duplicate_by_its_tombstone,
                a_delay_counts_from_engine_time[Delay],
                an_instant_in_the_past_is_due_now_and_late[Delay],
                the_last_instant_is_the_end_of_the_year_9999[Delay],
                a_job_that_comes_expired_is_cancelled[Expiry],
                an_id_that_is_free_again_makes_a_new_job,
            }
            unique {
                keep_merges_into_the_holder[UniqueKeep, Delay],
                replace_cancels_a_waiting_holder[UniqueKeep, UniqueReplace, Delay],
                replace_of_an_active_holder_is_refused[UniqueKeep, UniqueReplace],
                replace_takes_the_follower_too[UniqueKeep, UniqueReplace, UniqueAfter],
                after_an_active_holder_one_follower_waits[UniqueKeep, UniqueAfter],
                after_merges_a_second_follower[UniqueKeep, UniqueAfter],
                after_a_waiting_holder_merges[UniqueKeep, UniqueAfter, Delay],
                a_follower_waits_until_its_holder_settles[UniqueKeep, UniqueAfter],
                a_follower_is_not_early[UniqueKeep, UniqueAfter, Delay],
                a_follower_may_wait_for_names_too[UniqueKeep, UniqueAfter, HeldJobs, Effects],
                a_key_is_free_once_its_job_settles[UniqueKeep],
                jobs_that_end_together_free_their_keys[UniqueKeep, Delay],
                a_key_is_kept_while_its_job_goes_on[UniqueKeep],
                a_key_until_started_is_free_at_the_first_claim[UniqueKeep],
                a_key_for_a_period_outlives_its_job[UniqueKeep, UniqueReplace],
                a_settled_holder_is_not_replaced[UniqueKeep, UniqueReplace],
                a_key_for_a_period_is_free_before_its_job_settles[UniqueKeep, Delay],
                a_period_counts_from_the_enqueue[UniqueKeep],
                a_key_is_of_one_queue[UniqueKeep],
                a_key_counts_within_a_call[UniqueKeep, UniqueReplace],
                an_expired_holder_does_not_count[UniqueKeep, Expiry, Delay],
                a_job_is_named_by_its_key[UniqueKeep, Delay],
                redrive_takes_the_key_again[UniqueKeep],
                a_former_holder_does_not_free_the_key[UniqueKeep],
            }
            claim {
                a_job_is_claimed_when_due_and_never_before[Delay],
                a_delay_of_any_length_is_never_early[Delay],
                a_claimed_job_is_active_under_a_lease,
                a_job_is_claimed_once,
                a_claim_answers_at_most_its_limit,
                a_claim_answers_at_most_its_bytes,
                a_claim_answers_at_most_four_mebibytes,
                the_same_nonce_answers_the_same_lease,
                the_same_nonce_answers_what_is_left,
                a_nonce_is_of_one_worker,
                fences_only_grow,
                a_claim_reads_only_its_queues,
                strict_order_empties_the_first_queue_first,
                turns_take_one_job_of_each_queue,
                jobs_of_any_make_are_claimed_in_order[UniqueKeep, StrictDueOrder],
                wake_at_is_when_a_claim_could_answer_more[Delay],
                wake_at_is_the_end_of_a_lease[Delay],
                wake_at_is_of_the_claimed_queues[Delay],
                wake_at_is_of_what_keeps_jobs_back[Delay, UniqueKeep, Expiry],
                every_lease_of_a_claim_settles,
            }
            order {
                a_line_goes_by_due[Delay, StrictDueOrder],
                equal_dues_go_by_enqueue[Delay, StrictDueOrder],
                an_earlier_priority_goes_first[Priority],
                a_pile_over_the_sweep_is_claimed_by_due[Delay, StrictDueOrder],
                a_released_job_goes_first[Priority, StrictDueOrder],
                a_rescued_job_goes_first[Priority, StrictDueOrder],
                a_reschedule_takes_a_job_from_the_front[Priority, StrictDueOrder],
                a_retry_stands_by_its_new_due[StrictDueOrder],
                a_rescheduled_job_stands_by_its_new_due[Delay, StrictDueOrder],
                a_ready_job_delayed_is_not_claimed[Delay],
                a_reprioritised_job_changes_its_line[Delay, Priority],
                a_stale_place_in_a_line_is_not_claimed[Delay, Priority],
                cleared_jobs_stand_by_their_dues[HeldJobs, Effects, StrictDueOrder],
                a_release_takes_nothing_of_what_stays_held[HeldJobs, Effects, Delay, ListByState],
            }
            groups {
                a_group_has_one_active_job[Groups],
                a_group_is_one_over_all_priorities[Groups, Priority],
                a_group_goes_in_order[Groups, Delay, StrictDueOrder],
                every_member_runs_however_it_came[Groups, Delay],
                groups_run_beside_each_other[Groups],
                a_blocked_group_hides_nothing[Groups, Priority],
                a_group_is_of_one_queue[Groups],
                a_retry_holds_its_group_back[Groups],
                a_snooze_holds_its_group_back[Groups, Priority],
                a_passing_retry_lets_its_group_go_on[Groups],
                a_settled_job_lets_its_group_go_on[Groups],
                a_cancelled_retry_lets_its_group_go_on[Groups],
                an_expired_retry_lets_its_group_go_on[Groups, Expiry],
                an_edited_retry_moves_the_hold[Groups],
                a_returned_job_goes_first_in_its_group[Groups, Priority, StrictDueOrder],
            }
            lease {
                a_lease_that_runs_out_is_a_crash,
                an_extended_lease_lives_on,
                an_extension_never_shortens,
                an_extend_names_lost_jobs,
                an_old_token_extends_nothing,
                a_late_settlement_changes_nothing,
                an_old_token_settles_nothing,
                another_token_settles_nothing,
                progress_is_kept,
                after_a_silence_rescue_waits_a_lease,
                a_silence_of_half_a_lease_saves_nothing,
                a_lease_saved_from_a_silence_settles,
                a_second_silence_saves_nothing,
                time_ticks_on_when_the_clock_steps_back,
                a_clock_step_back_makes_nothing_early [Delay],
                a_lease_is_as_long_as_asked,
                a_large_crash_is_rescued_in_steps [Priority],
            }
            settle {
                a_completed_job_leaves_a_tombstone,
                a_completed_job_with_retention_is_kept,
                a_cancelled_outcome_cancels,
                a_dead_outcome_keeps_the_error,
                a_snooze_counts_as_nothing,
                a_snooze_of_no_span_is_ready,
                a_release_counts_as_nothing,
                the_same_settlement_again_is_repeated,
                a_repeated_retry_counts_once,
                a_part_of_a_lease_is_settled,
                verdicts_come_in_the_order_sent,
                a_settled_job_never_runs_again,
            }
            attempts {
                a_first_attempt_has_none_before_it,
                every_outcome_but_completed_is_kept,
                a_crash_is_kept,
                a_crash_ends_with_its_lease,
                a_poison_job_has_every_crash_on_record[Suspects],
                a_completion_keeps_the_attempts_before_it,
                a_last_failure_is_kept_as_a_retry,
                a_repetition_is_kept_once,
                the_first_and_the_last_nine_are_kept,
                of_snoozes_in_a_row_the_last_is_kept,
                a_long_error_is_cut,
                a_redrive_keeps_the_attempts,
                an_edit_keeps_the_attempts,
                an_import_of_too_many_attempts_is_refused[Import],
            }
            effects {
                an_effect_puts_a_job_in[Effects, Delay],
                every_outcome_may_have_effects[Effects],
                effects_of_a_lost_lease_do_not_happen[HeldJobs, Effects],
                effects_of_a_repeated_settlement_happen_once[Effects],
                a_malformed_effect_refuses_the_settle[Effects],
                an_effect_into_a_full_queue_is_taken[Effects, MaxPending],
                an_effect_may_take_the_key_of_its_job[Effects, UniqueKeep],
                an_effect_for_elsewhere_arrives_once[Effects],
                a_settle_reports_the_state_after_its_effects[Effects, UniqueReplace],
                a_settle_reports_its_job_dead_of_overflow[Effects, MaxPending],
                a_held_job_is_not_claimed[HeldJobs],
                the_last_name_lets_a_held_job_run[HeldJobs, Effects],
                a_cleared_job_is_not_early[HeldJobs, Effects, Delay],
                a_clear_of_a_job_that_does_not_wait_is_ignored[HeldJobs, Effects, Delay],
                a_settle_may_clear_a_job_that_it_enqueues[HeldJobs, Effects],
            }
            retry {
                a_retry_waits_the_span_given,
                a_retry_waits_as_its_policy_says,
                jobs_that_fail_together_wait_each_by_itself,
                a_retry_is_the_same_job,
                the_last_failure_is_the_end,
                a_retry_of_no_span_is_ready,
                only_failures_count_against_a_job,
                a_reminder_after_30_days_is_tried_five_times[Delay],
            }
            expiry {
                a_waiting_job_expires_at_its_instant[Expiry, Delay, HeldJobs],
                an_expired_job_is_never_claimed[Expiry, Priority],
                a_claim_settles_some_of_many_expired_jobs[Expiry],
                an_active_job_does_not_expire[Expiry],
                a_job_handed_back_too_late_expires[Expiry],
                a_rescued_job_expires[Expiry],
                a_retry_after_its_expiry_never_runs[Expiry],
                an_expired_job_says_when[Expiry],
                a_settled_job_does_not_expire[Expiry],
            }
            cancel {
                a_waiting_job_is_cancelled_at_once[Delay, HeldJobs],
                a_settled_job_is_not_cancelled,
                an_active_job_is_asked_to_stop[CancelActive],
                a_worker_that_stops_cancels[CancelActive],
                a_job_asked_to_stop_is_not_handed_back[CancelActive],
                a_job_that_ends_in_the_meantime_stays_ended[CancelActive],
                a_crash_ends_a_job_asked_to_stop[CancelActive],
                a_cancelled_follower_frees_its_place[UniqueKeep, UniqueAfter],
            }
            edit {
                reschedule_by_state[Delay, HeldJobs],
                a_reschedule_counts_from_now[Delay],
                run_now_by_state[Delay, HeldJobs],
                run_now_clears_every_name[Delay, HeldJobs],
                run_now_of_a_ready_job_changes_nothing[Priority, StrictDueOrder],
                a_follower_is_not_run_now[UniqueKeep, UniqueAfter],
                reprioritise_by_state[Delay, HeldJobs, Priority],
                redrive_by_state[Delay, HeldJobs, Priority],
                a_redriven_job_of_any_end_runs_again,
                a_redriven_held_job_waits_for_nothing[HeldJobs, UniqueAfter],
                a_redriven_expired_job_runs[Expiry],
                a_redriven_job_starts_over[Expiry, Suspects],
                a_redriven_job_is_dead_no_more[ListByState],
                a_redriven_job_expires[Expiry],
                a_redriven_job_is_of_its_group_again[Groups, ListByState],
                a_redriven_job_is_not_asked_to_stop[CancelActive],
                delete_by_state[Delay, HeldJobs, Priority],
                a_tombstone_is_only_deleted,
                verdicts_come_in_the_order_of_targets[Delay, UniqueKeep],
                a_dry_run_changes_nothing[Delay, HeldJobs, CancelActive, Priority],
                an_edit_by_filter_walks_with_a_cursor[Delay, EditByFilter],
                a_malformed_edit_is_refused,
                a_redrive_is_not_refused_by_a_full_queue[MaxPending],
            }
            delete {
                a_queue_with_jobs_is_not_deleted[Delay, HeldJobs, ListByState, History, Records],
                a_deleted_queue_leaves_nothing[Delay, Records, MaxPending, History, ListByState, Ends],
                a_deleted_queue_frees_its_keys[UniqueKeep, ListByState],
                an_idle_queue_is_forgotten_after_a_day[UniqueKeep, ListByState, History, Records],
                an_idle_queue_keeps_its_settings_and_keys[UniqueKeep, MaxPending, Records],
            }
            payload {
                update_by_state[Delay, HeldJobs],
                a_resend_is_compared_with_what_was_sent_first[Delay],
                an_updated_job_keeps_its_place[Delay, StrictDueOrder, Groups],
                an_updated_job_stays_in_front [Delay],
                a_far_job_is_updated[Delay, ListByState],
                an_update_has_the_bounds_of_an_enqueue,
            }
            list {
                every_state_lists_its_jobs[ListByState, Delay, HeldJobs],
                scheduled_jobs_are_listed_by_due[ListByState, Delay, StrictDueOrder],
                ready_jobs_are_listed_by_priority[ListByState, Priority],
                settled_jobs_are_listed_the_latest_first[ListByState],
                every_state_is_walked_with_a_cursor[ListByState, Delay, HeldJobs, Groups, Priority],
                a_walk_goes_on_while_jobs_leave[ListByState, Delay],
                payloads_are_listed_when_asked_for[ListByState, Delay],
                a_key_lists_holder_and_follower[ListByState, UniqueKeep, UniqueAfter],
                a_group_lists_its_unsettled_jobs[ListByState, Groups],
                a_filter_finds_by_age[ListByState, Delay],
                a_clean_by_age_spares_what_is_younger[ListByState, Delay, EditByFilter],
                a_filter_finds_by_each_field[ListByState, Delay],
                a_filter_finds_by_the_last_error[ListByState, EditByFilter],
                a_get_answers_in_the_order_asked[Delay, UniqueKeep],
                a_state_is_of_the_instant_asked[Delay, ListByState],
            }
            explain {
                not_due[Explain, Delay],
                waits_for_retry[Explain],
                waits_after_a_snooze[Explain],
                waits_for_names[Explain, HeldJobs, Effects],
                never_released_after_a_parent_that_ended[Explain, HeldJobs, Delay, Expiry],
                never_released_after_a_purge[Explain, HeldJobs, Delay],
                never_released_after_a_replacement[Explain, HeldJobs, Delay, UniqueKeep, UniqueReplace],
                never_released_after_poison[Explain, HeldJobs, Suspects],
                never_released_after_an_overflow[Explain, HeldJobs, Delay, MaxPending],
                waits_for_holder[Explain, UniqueKeep, UniqueAfter],
                queue_paused[Explain],
                group_active[Explain, Groups],
                group_held[Explain, Groups],
                suspect[Explain, Suspects],
                no_worker[Explain],
                no_worker_for_kind[Explain],
                in_line[Explain],
                active[Explain],
                settled[Explain],
                a_dead_job_names_its_cause[Explain],
                every_reason_that_holds_is_named[Explain, Delay],
            }
            stats {
                every_state_is_counted[Delay, HeldJobs],
                counts_come_back_to_nothing[ListByState],
                stats_answer_the_queues_asked_for,
                pages_have_every_queue_once,
                a_malformed_page_is_refused,
                the_oldest_due_job_is_reported[Delay],
                a_pause_is_reported,
                the_due_histogram_counts_what_is_to_come[Delay],
                the_history_counts_by_minute[History, ListByState],
                reported_times_come_back[History],
                reported_times_are_at_most_an_hour[History],
                workers_of_the_last_minute_are_listed,
                a_claimer_that_names_no_queues_is_no_worker,
                stats_say_whether_they_are_exact[Delay],
                health_is_red_while_due_jobs_wait,
                leases_count_against_free_slots,
            }
            log {
                lines_are_kept_in_order,
                a_job_that_is_not_kept_may_log,
                an_old_token_logs_nothing,
                the_oldest_lines_give_way,
                too_many_lines_are_refused,
            }
            ends {
                every_job_that_ends_is_an_end[Ends, Delay, Expiry, UniqueReplace],
                an_attempt_is_no_end[Ends, Delay],
                a_queue_keeps_its_last_hundred_ends[Ends],
                ends_name_the_kind_of_each_job[Ends],
                ends_are_of_a_queue_and_a_namespace[Ends],
            }
            schedules {
                an_occurrence_is_put_in_once_by_many_tickers[Schedules],
                the_next_is_there_when_one_moves[Schedules, ListByState],
                a_cancelled_occurrence_skips_one[Schedules],
                a_purged_queue_keeps_its_schedules[Schedules],
                a_deleted_occurrence_does_not_end_the_series[Schedules],
                an_edit_of_all_meets_a_schedule_once[Schedules, EditByFilter],
                two_weeks_off_fire_the_latest_once[Schedules],
                all_missed_fire_up_to_the_bound[Schedules],
                a_late_one_within_its_grace_fires[Schedules],
                a_step_back_fires_nothing_twice[Schedules],
                a_change_fires_nothing_of_before[Schedules],
                a_new_template_is_that_of_the_next_one[Schedules],
                a_dry_schedule_says_so[Schedules],
                spans_never_run_dry[Schedules],
                every_instant_is_accounted_for[Schedules],
                a_removed_schedule_leaves_no_run[Schedules, ListByState],
                a_schedule_is_written_at_its_version[Schedules],
                a_queue_outlives_its_schedules[Schedules],
                schedules_are_listed_by_name[Schedules],
                a_namespace_has_so_many_schedules[Schedules],
                a_wrong_schedule_is_refused[Schedules],
                the_id_of_a_run_is_reserved[Schedules],
            }
            schedule_histories {
                random_schedules_agree_with_a_model[Schedules],
            }
            schedule_runs {
                a_gap_runs_at_its_end[Schedules],
                a_fold_runs_the_first_time[Schedules],
                a_quarter_of_an_hour_runs_through_by_real_time[Schedules],
                a_run_names_its_schedule_and_instant[Schedules],
                a_run_is_of_the_share_of_its_schedule[Schedules, Shares],
                runs_hold_the_limits_of_their_schedule[Schedules, NamedLimits],
                a_running_one_skips_the_next[Schedules],
                one_is_buffered[Schedules],
                all_are_buffered[Schedules],
                the_other_is_cancelled[Schedules],
                a_retry_counts_as_running[Schedules],
                runs_that_failed_together_are_cancelled_alone[Schedules],
                a_paused_schedule_counts_on[Schedules],
                a_failed_run_pauses_its_schedule[Schedules],
                a_schedule_ends_with_its_last_run[Schedules, ListByState],
                a_run_may_be_put_off_or_brought_forward[Schedules],
                a_run_on_request_is_one_more[Schedules],
                a_backfill_repeats_nothing[Schedules],
                a_full_queue_takes_a_run[Schedules, MaxPending],
                a_paused_queue_keeps_its_runs[Schedules],
                an_imported_run_is_not_repeated[Schedules, Import, UniqueKeep],
                the_last_success_is_kept_with_its_result[Schedules],
                an_imported_success_is_kept[Schedules],
                a_schedule_without_success_is_overdue[Schedules],
                a_pause_ends_what_is_expected[Schedules],
            }
            control {
                a_paused_queue_is_not_claimed[Delay],
                a_pause_is_of_one_queue,
                a_paused_queue_has_no_wake_at[Delay],
                a_purge_cancels_what_waits[Delay, HeldJobs],
                a_purge_goes_on_at_its_cursor[Groups],
                a_record_is_written_at_its_version[Records],
                a_version_is_never_used_again[Records],
                record_names_are_found_by_prefix[Records],
                many_records_are_found_by_cursor[Records],
                queue_settings_are_a_record[Records, MaxPending],
                a_full_queue_refuses[MaxPending, Delay, HeldJobs],
                a_full_queue_knows_its_jobs[MaxPending, UniqueKeep, UniqueReplace],
                a_full_queue_lets_its_oldest_go[MaxPending, Delay],
                what_overflows_is_of_the_last_priority[MaxPending, Delay, HeldJobs, Priority],
                removed_settings_bind_nothing[MaxPending],
                a_bound_is_of_one_queue[MaxPending],
                what_overflows_is_the_next_in_line[MaxPending, Priority],
                what_is_kept_back_overflows_last[MaxPending, Groups, Delay],
            }
            limits {
                no_more_are_active_than_allowed[QueueLimits],
                a_lost_lease_frees_its_slot[QueueLimits],
                a_lowered_limit_kills_nothing[QueueLimits],
                no_window_has_more_than_the_rate[QueueLimits],
                a_smooth_rate_spaces_its_starts[QueueLimits],
                tokens_do_not_pile_up_over_an_outage[QueueLimits],
                a_retry_takes_a_token_anew[QueueLimits],
                a_limited_job_counts_no_attempt[QueueLimits],
                a_limited_queue_is_not_claimed_ahead[QueueLimits],
                a_freed_slot_wakes[QueueLimits],
                wake_at_is_when_the_gate_opens[QueueLimits, Delay],
                a_closed_queue_hides_no_other[QueueLimits],
                no_slot_idles_while_one_waits[QueueLimits, Groups, Priority, Expiry],
                a_removed_limit_frees_all[QueueLimits],
                explain_names_the_closed_gate[QueueLimits, Explain, Delay, Priority],
                what_a_limit_keeps_back_is_not_late[QueueLimits],
                limits_out_of_range_are_refused[QueueLimits],
            }
            settled {
                a_tombstone_stays_for_the_settled_window,
                settled_jobs_stay_as_long_as_the_limits_say,
                tombstones_are_bounded,
                a_resend_window_that_shrinks_is_reported,
                results_in_tombstones_are_bounded,
                a_job_is_remembered_for_as_long_as_it_says,
                a_remembered_tombstone_goes_last,
                remember_is_refused_when_its_share_is_full,
                a_settled_job_is_kept_for_its_retention,
                jobs_that_end_together_are_kept_for_their_own_time,
                jobs_that_end_together_are_bounded,
                hundreds_that_end_together_are_bounded,
                a_short_retention_lasts_for_the_settled_window,
                settled_jobs_are_bounded[ListByState],
                settled_jobs_are_bounded_by_bytes[ListByState],
                settled_jobs_of_a_namespace_are_bounded,
                a_settled_job_says_when,
                maintenance_says_when_to_come_again[Delay],
                maintenance_comes_again_for_what_ends[Expiry],
                a_result_can_be_read_after_the_end,
            }
            suspects {
                a_job_of_one_crash_dies_at_its_first[Suspects, Delay],
                a_crash_limit_is_kept[Suspects],
                a_redriven_job_of_one_crash_runs_alone[Suspects],
                one_aborting_among_63_innocent_dies_alone[Suspects],
                a_suspect_is_claimed_only_alone[Suspects],
                a_claim_alone_answers_one_suspect[Suspects, Priority],
                a_first_crash_alone_is_no_poison[Suspects],
                a_suspect_may_complete[Suspects],
                a_suspect_that_fails_is_tried_again_alone[Suspects],
                an_extended_lease_is_no_crash[Suspects],
                a_suspect_blocks_no_other_job[Suspects],
                what_was_settled_before_a_crash_is_no_suspect[Suspects],
                a_suspect_of_a_group_is_claimed_only_alone[Suspects, Groups],
                a_suspect_of_a_paused_queue_waits[Suspects],
                a_suspect_wakes_only_workers_that_run_alone[Suspects],
            }
            wait {
                a_new_job_wakes_a_waiter,
                a_wakeup_that_a_gone_waiter_took_is_not_missed,
                an_earlier_job_wakes_a_waiter[Delay],
                a_job_brought_forward_wakes_a_waiter[Delay],
                a_wait_until_wake_at_ends_with_work[Delay],
                a_wait_ends_at_its_instant,
                what_brings_no_work_does_not_ring[Delay],
                a_claim_that_leaves_work_wakes_the_next,
                a_release_wakes_a_waiter,
                a_redrive_wakes_a_waiter,
                run_now_wakes_a_waiter[Delay],
                a_resume_wakes_a_waiter,
                a_freed_group_wakes_a_waiter[Groups],
                a_cleared_job_wakes_a_waiter[HeldJobs, Effects],
                a_settled_wait_ends_with_the_last[AwaitSettled],
                a_settled_wait_waits_for_all[AwaitSettled, Delay],
                changes_report_each_step[ChangeFeed],
                changes_are_of_a_namespace[ChangeFeed],
                a_slow_watcher_learns_of_the_gap[ChangeFeed],
            }
            wake {
                the_expiry_of_what_holds_a_group_back_wakes[Groups, Expiry],
                the_expiry_of_a_suspect_in_front_wakes[Suspects, Groups, Expiry, Priority],
                the_expiry_of_what_is_followed_wakes[UniqueKeep, UniqueAfter, Expiry],
                the_end_of_a_followed_period_wakes[UniqueKeep, UniqueAfter],
                an_end_that_no_waiter_knows_of_wakes_one[UniqueKeep, UniqueAfter],
            }
            bounds {
                a_malformed_job_refuses_the_call,
                a_job_at_its_limits_is_taken[HeldJobs, UniqueKeep],
                a_call_takes_a_thousand_jobs,
                a_call_takes_four_mebibytes,
                a_claim_out_of_range_is_refused,
                a_settle_over_its_limits_is_refused,
                a_settle_takes_four_mebibytes_of_effects[Effects],
                a_settle_takes_a_thousand_leases_and_samples,
                an_extend_out_of_range_is_refused,
                a_read_over_a_batch_is_refused[ListByState, EditByFilter],
                a_wait_over_its_limits_is_refused,
                a_record_takes_64_kibibytes[Records],
            }
            names {
                a_hostile_name_is_refused,
                hostile_queue_settings_are_refused[MaxPending],
                a_hostile_namespace_cannot_be_made,
                a_hostile_key_is_refused,
                any_printable_text_is_a_key[UniqueKeep, Groups, ListByState],
                names_do_not_run_into_each_other[UniqueKeep, Groups, ListByState],
                names_differ_by_case[ListByState],
            }
            import {
                every_job_comes_over_as_it_was[Import, Delay, HeldJobs, ListByState, Priority],
                an_active_job_comes_over_as_ready[Import, Delay],
                an_import_again_is_a_duplicate[Import, Delay],
                a_retention_counts_from_the_end[Import, Delay],
                an_import_brings_the_key_of_a_waiting_job[Import, Delay, UniqueKeep],
                an_imported_job_runs_when_due[Import, Delay],
                a_malformed_past_is_refused[Import, HeldJobs, Delay],
                a_settled_import_needs_no_key[Import, UniqueKeep, Delay],
                an_imported_job_may_follow[Import, UniqueKeep, UniqueAfter, Delay],
                a_past_that_is_to_come_ends_now[Import, Delay],
                a_settled_import_needs_no_room[Import, MaxPending, Delay],
            }
            cursors {
                a_cursor_of_another_request_is_refused[ListByState, Delay, EditByFilter],
                another_tenant_changes_no_answer[
                    ListByState, Delay, HeldJobs, Groups, UniqueKeep, UniqueAfter, Priority, EditByFilter
                ],
                a_feed_counts_the_changes_of_its_namespace[ChangeFeed],
            }
            namespaces {
                a_job_is_seen_in_its_namespace_only[UniqueKeep, ListByState],
                ids_and_keys_are_of_a_namespace[UniqueKeep],
                an_edit_is_of_a_namespace[EditByFilter],
                a_token_is_of_a_namespace,
                control_is_of_a_namespace[Records, MaxPending],
                a_wakeup_is_of_a_namespace,
                workers_are_listed_in_their_namespace,
                a_nonce_is_of_a_namespace,
            }
            capabilities {
                info_names_capabilities_in_order,
                a_claimed_capability_has_a_law,
                a_claimed_capability_has_what_it_rests_on,
                an_unclaimed_capability_answers_unsupported,
            }
        }
    };
}
