"""The rules of declared pipelines, each with the tests that hold it.

`python -m tests.support.pipeline_rules FOLDER` prints the files of FOLDER and these tests, for
`make pipeline-test`.
The rules that later work brings (Avro, registries, spark-pipelines) have no test yet: NOT_YET.
"""

import sys
from pathlib import Path

from tests.support.named_rules import Rule

NOT_YET = {9: "a registry", 10: "a registry", 26: "spark-pipelines"}
"""Rules without a test, and what they need."""

_RUNS, _UNIT = "tests/spark/pipeline", "tests/unit/pipeline"
_KILLS = "tests/spark/test_quarantine_kills.py"
LONGEST = (
    *[f"{_RUNS}/test_{name}.py" for name in ("ended_runs", "ended_windows", "live_runs")],
    _KILLS,
)
"""Files whose tests take minutes, which begin first: one process runs a whole file."""
RULES: dict[int, Rule] = {
    1: Rule(
        "killed at any point of a batch, each record is in the table or the quarantine, once",
        (
            f"{_KILLS}::test_killed_at_any_point_each_record_is_written_or_quarantined_once",
            f"{_KILLS}::test_a_batch_whose_records_are_all_refused_is_one_batch",
        ),
    ),
    2: Rule(
        "the schema or condition is changed between kill and restart: still one of them, once",
        (
            f"{_KILLS}::test_a_parser_or_check_changed_after_a_kill_leaves_each_record_in_one_place",
            f"{_RUNS}/test_checks_and_quarantine.py::"
            "test_a_condition_changed_after_a_kill_leaves_each_record_in_one_place",
        ),
    ),
    3: Rule(
        "retries, copies of tasks and second scans quarantine a record once",
        (
            "tests/unit/spark/quarantine/test_spool_and_manifest.py::"
            "test_a_retried_task_and_a_second_scan_spool_each_record_once",
            "tests/spark/test_quarantine.py::test_two_scans_of_a_topic_quarantine_a_record_once",
        ),
    ),
    4: Rule(
        "a repeated batch quarantines the same offsets and no others",
        (
            f"{_KILLS}::test_a_repeated_batch_publishes_nothing_more",
            f"{_RUNS}/test_run_quarantine.py::test_a_repeated_batch_quarantines_nothing_again",
        ),
    ),
    5: Rule(
        "refused records are published whatever the query does behind its topic",
        ("tests/spark/test_quarantine.py::test_any_query_quarantines_what_its_source_refuses",),
    ),
    6: Rule(
        "a failed check leaves nothing of its batch, fails alike again, and is written once later",
        (
            f"{_RUNS}/test_row_checks.py::"
            "test_a_failed_check_leaves_nothing_of_the_batch_and_says_where",
            f"{_RUNS}/test_unique_and_fresh.py::test_a_repeated_key_leaves_nothing_of_the_batch",
        ),
    ),
    7: Rule(
        "a check that is null fails; one that raises is exit 1 and named",
        (
            f"{_RUNS}/test_row_checks.py::test_rows_are_kept_dropped_and_counted",
            f"{_RUNS}/test_row_checks.py::test_a_check_that_raises_is_an_error_of_the_project",
        ),
    ),
    8: Rule(
        "too many refused records end the run with nothing changed",
        (
            f"{_RUNS}/test_run_quarantine.py::"
            "test_too_many_malformed_records_end_the_run_before_the_sink_has_any",
            "tests/unit/spark/quarantine/test_share.py::"
            "test_more_than_half_of_a_thousand_ends_the_query",
        ),
    ),
    11: Rule(
        "a record without a value is never refused; an empty one is",
        (
            f"{_RUNS}/test_run_values.py::test_a_null_value_is_a_row_and_an_empty_one_is_refused",
            f"{_RUNS}/test_pipeline_run.py::"
            "test_a_parser_and_heartbeats_give_rows_and_advance_the_watermark",
        ),
    ),
    12: Rule(
        "each odd value and type: the kernel, the plain decoder and `given` agree",
        (
            "tests/unit/typed/test_type_table.py::test_plain_decoder_follows_the_type_table",
            "tests/unit/typed/test_type_table.py::test_kernel_follows_the_type_table",
            "tests/property/test_json_twin.py::test_damaged_records_are_decoded_and_refused_alike",
            f"{_RUNS}/test_given_records.py::test_json_values_are_refused_with_their_reason",
        ),
    ),
    13: Rule(
        "each change between two runs has its verdict; a run without a choice starts no query",
        (
            f"{_RUNS}/test_plan_changes.py::"
            "test_each_change_has_its_verdict_and_spark_refuses_the_incompatible",
            f"{_RUNS}/test_plan_and_run.py::test_changed_window_is_refused_until_it_is_accepted",
        ),
    ),
    14: Rule(
        "one run at a time; without the lock file the markers let one batch count; kill -9",
        (
            f"{_RUNS}/test_live_runs.py::test_a_run_holds_its_pipeline_until_it_is_stopped",
            f"{_RUNS}/test_live_runs.py::test_two_runs_without_a_lock_write_each_row_once",
            "tests/broker/pipeline/test_run_lock.py::test_a_killed_process_leaves_no_lock",
            f"{_UNIT}/run/test_run_files.py::test_a_held_pipeline_is_refused_with_its_holder",
        ),
    ),
    15: Rule(
        "ended in any batch, then three runs: the table is that of a batch job",
        (
            f"{_RUNS}/test_ended_runs.py::test_runs_that_are_ended_in_any_batch_write_each_row_once",
            f"{_RUNS}/test_ended_windows.py::"
            "test_windows_of_runs_that_are_ended_in_any_batch_are_written_once",
            f"{_RUNS}/test_live_runs.py::test_a_run_holds_its_pipeline_until_it_is_stopped",
            f"{_UNIT}/run/test_supervisor.py::test_a_stop_waits_for_the_end_of_a_running_batch",
        ),
    ),
    16: Rule(
        "retention took unread offsets: exit 12 with the ranges, at each start",
        (f"{_RUNS}/test_run_endings.py::test_records_deleted_before_they_were_read_end_the_run",),
    ),
    17: Rule(
        "an applied replay: its days and the live rows, each offset once, killed anywhere",
        (
            f"{_RUNS}/test_pipeline_replay.py::test_a_corrected_day_is_compared_applied_and_undone",
            f"{_UNIT}/replays/test_replay_steps.py::"
            "test_compaction_between_diff_and_apply_is_followed",
            f"{_RUNS}/test_covered_records.py::"
            "test_records_that_an_applied_replay_has_are_settled_until_its_undo",
            f"{_RUNS}/test_covered_records.py::"
            "test_a_step_that_is_killed_and_completed_by_a_run_notes_its_records",
            f"{_RUNS}/test_covered_records.py::"
            "test_records_that_were_sent_since_the_replay_was_computed_refuse_its_apply",
            f"{_UNIT}/replays/test_replay_notes.py::"
            "test_step_killed_at_any_line_leaves_each_record_in_one_place",
            f"{_UNIT}/replays/test_overlapping_replays.py::"
            "test_undo_beneath_a_later_replay_of_an_empty_day_is_refused",
            f"{_UNIT}/replays/test_killed_replays.py::"
            "test_step_killed_at_any_line_is_done_once_by_the_next",
        ),
    ),
    18: Rule(
        "a reader of a Delta table sees the old version or the new one",
        (f"{_UNIT}/replays/test_replay_steps.py::test_reader_sees_the_old_rows_or_the_new_ones",),
    ),
    19: Rule(
        "retention takes records during a replay: exit 12, the table is as before",
        (
            f"{_RUNS}/test_pipeline_replay.py::"
            "test_records_that_retention_deletes_during_a_replay_discard_it",
            f"{_RUNS}/test_pipeline_replay.py::"
            "test_records_that_retention_deleted_are_data_loss_before_anything_is_written",
        ),
    ),
    20: Rule(
        "replayed windows equal a batch group-by; open windows are refused",
        (
            f"{_RUNS}/test_pipeline_replay.py::test_windows_of_late_records_equal_a_batch_group_by",
            f"{_RUNS}/test_pipeline_replay.py::test_days_with_open_windows_are_refused",
        ),
    ),
    21: Rule(
        "an older change in a later batch neither overwrites nor revives a key",
        (
            "tests/unit/spark/tables/test_older_changes.py::"
            "test_an_older_change_in_a_later_batch_is_not_applied",
            "tests/unit/spark/tables/test_older_changes.py::"
            "test_an_older_change_does_not_bring_back_a_deleted_key",
        ),
    ),
    22: Rule(
        "a table does not differ from itself; one changed value is one row and one column",
        (
            f"{_UNIT}/diffs/test_compare.py::test_table_does_not_differ_from_itself",
            f"{_UNIT}/diffs/test_compare.py::"
            "test_other_files_and_order_of_the_same_rows_do_not_differ",
            f"{_UNIT}/diffs/test_compare.py::test_changed_value_counts_one_row_and_one_column",
        ),
    ),
    23: Rule(
        "plan, validate, test, diff, status and dry runs change nothing",
        (
            f"{_RUNS}/test_run_endings.py::test_status_and_validate_change_nothing",
            f"{_RUNS}/test_plan_and_run.py::test_changed_window_is_refused_until_it_is_accepted",
            f"{_UNIT}/replays/test_replay_records.py::test_diff_changes_nothing",
            f"{_RUNS}/test_dry_run.py::test_a_dry_run_changes_nothing_before_and_after_runs",
            "tests/broker/pipeline/test_project_tests.py::test_exit_code_tells_how_the_tests_ended",
        ),
    ),
    24: Rule(
        "a full disk: in the spool one sentence, in event log and counts no end of a batch",
        (
            "tests/spark/tables/test_quarantine_disk.py::"
            "test_a_full_disk_in_the_spool_is_one_error_and_the_range_is_spooled_afterwards",
            f"{_UNIT}/run/test_run_files.py::test_a_full_disk_loses_events_and_stops_nothing",
            "tests/unit/spark/checks/test_row_checks.py::"
            "test_counts_that_cannot_be_written_stop_nothing",
            f"{_UNIT}/run/test_freshness.py::test_a_disk_that_cannot_be_written_ends_no_run",
        ),
    ),
    25: Rule(
        "secrets are in no event, file, plan or process list; hidden columns are masked",
        (
            f"{_RUNS}/test_guarded_runs.py::test_no_secret_is_in_events_files_or_the_process_list",
            f"{_RUNS}/test_dry_run.py::test_a_dry_run_shows_rows_counts_refusals_and_checks",
        ),
    ),
    27: Rule(
        "a user's exception is one line and no restart; what passes by itself is waited for",
        (
            f"{_RUNS}/test_run_endings.py::"
            "test_a_users_exception_ends_the_run_with_function_line_batch_and_offsets",
            f"{_RUNS}/test_run_endings.py::"
            "test_a_continuous_run_waits_for_brokers_until_it_is_stopped",
            f"{_UNIT}/run/test_supervisor.py::"
            "test_a_passing_error_restarts_only_its_query_after_the_backoff",
            f"{_UNIT}/run/test_supervisor.py::"
            "test_a_worker_that_is_lost_each_time_ends_a_continuous_run",
        ),
    ),
    28: Rule(
        "a profile never writes another one's storage, tables or topics",
        (
            f"{_RUNS}/test_run_endings.py::test_a_profile_does_not_write_the_storage_of_another",
            f"{_RUNS}/test_run_values.py::test_two_profiles_write_one_topic_by_names_of_their_own",
            f"{_UNIT}/run/test_run_files.py::"
            "test_storage_of_another_profile_or_pipeline_is_refused",
        ),
    ),
}

if __name__ == "__main__":
    folder = sys.argv[1]
    whole = {*LONGEST, *(str(path) for path in Path(folder).glob("test_*.py"))}
    named = {test for rule in RULES.values() for test in rule.tests}
    others = {test for test in named if test.partition("::")[0] not in whole}
    print("\n".join(sorted(whole | others, key=lambda file: (file not in LONGEST, file))))
