//! The readable specification of the ledger: transcripts of commands and answers.
//!
//! Each file of `tests/scenarios/` is a test. `k…` are faults that others had, `e…`, `j…` and `b…` tell of
//! events, jobs and budgets, `s…` is what the specification says and no fault covers. `UPDATE_EXPECT=1`
//! rewrites the answers; the change is reviewed as a diff.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use purser_ledger::scenario;

/// One test for each transcript, and the list of all of them.
macro_rules! transcripts {
    ($($name:ident,)+) => {
        const TRANSCRIPTS: &[&str] = &[$(stringify!($name)),+];

        $(#[test]
        fn $name() {
            check_transcript(stringify!($name));
        })+
    };
}

transcripts! {
    b01_a_call_under_budgets_is_one_decision,
    b02_what_is_held_becomes_used_and_comes_back,
    b03_more_than_a_budget_has,
    b04_a_changed_limit_holds_at_once,
    b05_periods_end_at_their_instants,
    b06_making_and_removing_budgets,
    b07_jobs_under_budgets,
    b08_budgets_move_with_their_home,
    b09_only_home_decides_under_budgets,
    b10_a_lost_homes_spends_count_in_their_budgets,
    b11_what_a_capture_owes_is_no_budgets,
    b12_a_forgotten_period_has_nothing_left,
    e01_an_event_names_a_hold,
    e02_an_event_that_names_no_hold_there_is,
    e03_an_event_names_a_job,
    e04_zero_frozen_closed,
    e05_events_move_with_their_home,
    e06_credits_that_are_out_are_asked_back,
    e07_a_hold_with_nothing_left_to_capture_is_ended,
    e08_a_region_takes_an_event_that_names_its_hold,
    e09_an_event_that_came_before_its_time,
    e10_a_longer_age_counts_for_events_to_come,
    j01_a_job_that_is_delivered_is_paid_once,
    j02_a_job_that_fails_is_given_back_once,
    j03_a_success_may_come_after_everything,
    j04_a_failed_job_waits_longer_each_time_and_is_dead_in_the_end,
    j05_one_worker_at_a_time,
    j06_a_job_has_one_name_and_one_content,
    j07_what_others_do_to_a_jobs_hold,
    j08_freeze_and_close,
    j09_the_oldest_job_of_all_accounts_comes_first,
    j10_jobs_move_with_their_home,
    j11_a_home_is_lost_and_its_jobs_come_again,
    j12_dead_jobs_are_in_nobodys_way,
    k001_another_body_under_a_running_key,
    k002_one_key_another_resource,
    k002b_event_ids_and_keys_are_separate_spaces,
    k004_which_answers_are_remembered,
    k006_a_retry_is_recognised_as_the_same_request,
    k007_two_racers_with_one_key,
    k009_abandoned_holds_come_back_before_any_sweep,
    k009b_a_sweep_writes_down_what_was_true_before,
    k011_ending_a_hold_that_has_ended,
    k012_held_credits_count_on_every_path,
    k013_the_id_of_a_refused_authorize,
    k015_release_goes_back_to_the_lots_it_came_from,
    k016_charged_work_repeated_under_a_new_hold,
    k017_the_last_capture_frees_the_rest,
    k018_over_capture_debt_and_the_next_grant,
    k018b_debt_stops_at_its_limit,
    k020_capture_and_release_at_once,
    k021_an_expired_lot_that_no_sweep_has_seen,
    k023_two_lots_meet_at_one_instant,
    k026_one_purchase_two_grants,
    k027_refunds_repeated_with_new_keys,
    k028_refunds_at_the_same_time,
    k029_the_bound_is_what_was_captured,
    k030_refund_of_a_charge_that_took_two_lots,
    k032_refund_out_of_order,
    k034_refunded_on_time_out_delivered_later,
    k034b_a_job_refunded_on_time_out_is_delivered_later,
    k036_reclaim_with_too_few_credits,
    k036b_a_job_is_delivered_after_its_credits_are_gone,
    k038_refunded_credits_expired_before_the_reclaim,
    k039_a_mark_and_its_effect_are_one_entry,
    k040_one_event_id_another_quantity,
    k042_event_time_in_the_future_or_long_past,
    k042b_how_long_an_event_is_remembered,
    k043_a_poison_job,
    k043b_a_poison_event_stops_no_other,
    k044a_a_batch_with_a_bad_middle,
    k044b_two_workers_on_one_job,
    k045_two_holds_over_both_lots,
    k046_committed_and_the_answer_lost,
    k048_restart,
    k049_a_deposed_leader,
    k053_each_region_allows_the_whole_budget,
    k056_denied_requests_use_nothing_up,
    k056b_several_limits_are_one_decision,
    k059_restart_counts_the_same_use_once,
    k060_a_settings_change_carries_no_balance,
    k064_lots_and_not_only_totals,
    k065_one_resolution_of_time,
    k067_negative_zero_and_magic_amounts,
    k067b_a_capture_of_nothing_that_is_not_the_last,
    k068_the_ends_of_a_64_bit_integer,
    k068b_debt_at_the_end_of_the_range,
    k069_two_to_the_53_and_one,
    k071_spellings_of_thirty,
    k072_an_expiry_is_an_instant,
    k074_second_sixty,
    s01_opening_an_account,
    s02_burn_down_order,
    s03_a_grant_that_would_never_be_effective,
    s04_one_source_one_grant,
    s05_pinned_credits_outlive_their_lot,
    s06_several_things_due_at_one_instant,
    s07_events_take_effect_in_the_order_of_their_instants,
    s08_void,
    s09_a_destructive_act_confirms_what_it_saw,
    s10_extend_moves_a_deadline_later,
    s11_time_to_live,
    s12_late_capture,
    s13_a_late_capture_within_the_deadline_is_a_capture,
    s14_charge_and_check,
    s15_debt_is_repaid_oldest_first,
    s16_an_order_that_survives_repayment,
    s17_refund_into_an_expired_lot,
    s18_refund_into_an_expired_lot_with_regrant,
    s19_a_regrant_pays_debt,
    s20_reclaim,
    s21_reclaim_books_beyond_the_limit,
    s22_adjust,
    s23_freeze,
    s24_close,
    s25_a_key_is_kept_for_24_hours_exactly,
    s26_guards_that_outlive_the_key,
    s27_keys_of_different_requests,
    s28_a_replay_tells_the_whole_answer_again,
    s29_an_atomic_batch,
    s30_a_batch_opens_no_account,
    s31_a_batch_is_decided_as_of_one_instant,
    s32_a_refusal_in_a_batch_is_remembered_once,
    s33_a_grant_made_before_repaid_nothing_itself,
    s34_log_time_does_not_go_back,
    s35_who_and_why,
    s36_an_allocation_that_should_last,
    t01_a_region_spends_what_it_was_granted,
    t02_lots_are_carried_out_and_come_back,
    t03_a_lot_that_expires_in_a_region_is_returned,
    t04_a_voucher_that_comes_after_its_lots_end,
    t05_a_lot_voided_while_it_is_out,
    t06_holds_live_and_end_in_a_region,
    t07_a_region_refuses_what_is_beyond_its_right,
    t08_a_report_is_lost_repeated_and_reordered,
    t09_a_voucher_is_lost_repeated_and_reordered,
    t10_a_recall_is_answered,
    t11_a_recall_races_with_spending,
    t12_a_take_back_within_the_cap,
    t13_a_late_return_after_a_take_back_nets_to_zero,
    t14_a_take_back_beyond_the_cap,
    t15_a_forced_take_back_that_turns_out_spent,
    t16_overdraft_is_used_and_settled_by_a_later_grant,
    t17_overdraft_is_not_settled_while_the_tenant_owes,
    t18_a_lower_overdraft_counts_at_its_worst,
    t19_refunds_in_a_region,
    t20_a_refund_in_a_region_of_an_expired_lot_is_granted_anew,
    t21_a_refund_in_a_region_cancels_debt,
    t22_reclaim_in_a_region,
    t23_a_refund_that_home_hears_of_after_the_record_has_gone,
    t24_a_freeze_reaches_a_region_with_its_voucher,
    t25_a_strict_region_decides_nothing_new,
    t26_close_is_blocked_by_an_allocation,
    t27_a_voucher_on_its_way_when_the_region_finishes,
    t28_a_region_that_was_rolled_back_is_sealed,
    t29_a_region_that_has_lost_everything_begins_no_book_again,
    t30_a_region_seals_its_own_book,
    t31_an_epoch_fences_older_vouchers,
    t32_a_key_in_a_region,
    t33_allocations_of_several_units_and_tenants,
    t34_what_is_overspent_counts_towards_the_cap,
    t35_a_take_back_of_what_was_sealed,
    t36_the_ends_of_the_range_in_a_region,
    t37_numbers_of_regions_and_of_home_are_told_apart,
    t38_one_region_is_no_business_of_another,
    t39_a_batch_in_a_region_is_all_or_nothing,
    t40_a_voucher_that_contradicts_what_home_said,
    t41_a_retry_in_another_region_is_undone,
    t42_what_home_decided_is_not_charged_in_a_region_too,
    t43_a_closed_allocation_is_undone_at_home,
    t44_what_a_region_passes_on_it_never_decides,
    t45_a_generation_does_not_decide_what_another_has,
    t46_a_call_that_is_short_while_credits_are_out,
    t47_a_region_that_keeps_its_credits_agrees_before_they_are_taken_back,
    t48_credits_go_from_one_region_to_another,
    t49_home_covers_one_operation,
    t50_a_cover_that_is_not_needed_comes_back,
    t51_what_home_does_not_cover,
    t52_a_cover_that_was_taken_back_counts_as_any_credit,
    t53_a_refund_repeated_after_the_allocation_is_closed,
    t54_a_cover_that_is_out_lifts_no_take_back_above_its_ceiling,
    t55_a_region_forgets_a_cover_that_is_booked,
    t56_an_allocation_has_so_many_covers_and_no_more,
    u01_a_home_moves,
    u02_a_move_is_given_up,
    u03_a_home_is_lost,
    u04_a_tail_is_booked_once,
    u05_a_tail_is_given_up,
    u06_with_nothing_unacknowledged_nothing_is_lost,
    u07_an_account_goes_and_comes_back,
    u08_a_cover_is_paid_after_the_stop_when_a_home_goes_on,
}

#[test]
fn every_transcript_in_the_folder_is_a_test() {
    let files = std::fs::read_dir(folder()).unwrap();
    let stems = files.map(|file| file.unwrap().path().with_extension(""));
    let found: BTreeSet<String> =
        stems.map(|stem| stem.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let listed: BTreeSet<String> = TRANSCRIPTS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, listed);
}

fn folder() -> PathBuf {
    purser_expect::path(env!("CARGO_MANIFEST_DIR"), "scenarios")
}

/// Plays a transcript and compares every answer.
#[track_caller]
fn check_transcript(name: &str) {
    let path = folder().join(name).with_extension("txt");
    let transcript = std::fs::read_to_string(&path).unwrap();
    match scenario::play(&transcript) {
        Ok(answered) => purser_expect::check(&path, &answered),
        Err(error) => panic!("{name}: {}", chain(&error)),
    }
}

/// An error and what is behind it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
