"""Tiers of tests: slow ones, left to a target of their own, and long ones, left out of check.

`make check` and `make test` run with `-m "not slow"`. A test is slow by its own mark, or because it
lies in a tree or file named here; what is kept of these trees belongs to every change.

`make check` leaves out the long tests that are listed here, too.
"""

SLOW = {
    "tests/spark/pipeline/": "pipeline-test",
    "tests/spark/": "spark-test",
    "tests/outside/clients/": "clients-test",
    "tests/outside/rocketmq/": "rocketmq-test",
    "tests/release/": "dist-test",
    "tests/soak/": "soak",
    "tests/crash/test_damaged_files.py": "crash",
    "tests/crash/test_damaged_directory_live.py": "crash",
    "tests/crash/test_log_upkeep.py": "crash",
    "tests/crash/test_compaction_power_cut.py": "crash",
    "tests/crash/test_compaction_processes.py": "crash",
    "tests/security/test_hostile_apis.py": "security-test",
    "tests/security/test_hostile_crowds.py": "security-test",
    "tests/security/test_serve_secure.py": "security-test",
    "tests/security/test_slowloris.py": "security-test",
    "tests/security/test_tls.py": "security-test",
    "tests/property/queues/test_amqp_lives_machine.py": "amqp-model",
    "tests/unit/testing/test_coordinators_move.py": "sim-moves",
    "tests/unit/testing/test_replicated_work.py": "sim-moves",
}
"""Beginnings of paths, each with the target that runs it."""
KEPT = (
    "tests/outside/clients/test_amqp_pika.py",
    "tests/outside/clients/test_cli_cluster.py",
    "tests/outside/clients/test_cli_commands.py",
    "tests/outside/clients/test_newer_groups.py",
    "tests/outside/clients/test_smoke_clients.py",
    "tests/outside/clients/test_topics_in_use.py",
    "tests/spark/pipeline/test_pipeline_run.py::test_once_writes_what_there_is_and_continues_at_the_next_start",
    "tests/spark/test_quarantine.py::test_refused_records_are_quarantined_byte_for_byte",
    "tests/spark/test_range_reader.py",
    "tests/spark/test_security_options.py",
    "tests/spark/test_sink_runs.py",
    "tests/spark/test_spark_batch.py",
    "tests/spark/test_stream_reader.py",
    "tests/unit/testing/test_replicated_work.py::test_what_was_acknowledged_is_on_all_replicas",
)
"""Beginnings of ids within them: a real client of each protocol, jobs of Spark, three brokers."""

LONG = (
    "tests/property/arrow/test_arrow_lz4.py",
    "tests/property/arrow/test_arrow_twin.py",
    "tests/property/log/test_compaction_twin.py",
    "tests/property/cluster/test_controller_decisions.py",
    "tests/property/queues/test_cursor_machine.py",
    "tests/property/log/test_fetch_by_ready.py",
    "tests/property/log/test_log_bits.py",
    "tests/property/wire/test_offset_commit_runs.py::test_a_stream_leads_to_the_same",
    "tests/property/cluster/test_partition_roles.py",
    "tests/property/log/test_produce_runs.py",
    "tests/property/coordination/test_share_lives.py",
    "tests/property/wire/test_wire_hot.py",
    "tests/property/test_json_encoder.py",
    "tests/property/cluster/test_isr_keeper.py",
    "tests/unit/arrow/test_plain_batches.py::test_the_rows_are_those_of_the_walk_batch_by_batch",
    "tests/unit/frontends/amqp/test_amqp_session.py::test_a_large_frame_that_comes_slowly_is_a_sign_of_life",
    "tests/unit/frontends/amqp/test_amqp_session.py::test_heartbeats_come_and_a_silent_client_is_ended",
    "tests/unit/frontends/amqp/test_amqp_session.py::test_no_more_is_read_of_who_crowds_logs_until_all_are_made",
    "tests/unit/log/test_truncate.py::test_what_a_power_cut_leaves_of_a_truncation_into_a_gap_is_served",
    "tests/unit/pipeline/diffs/test_compare.py",
    "tests/unit/pipeline/replays/test_killed_replays.py",
    "tests/unit/pipeline/replays/test_replay_steps.py",
    "tests/unit/queue_stores/test_settled_segments.py::test_whatever_a_power_cut_leaves_what_went_was_settled",
    "tests/unit/replication/test_catching_up.py",
    "tests/unit/spark/tables/test_bounds_and_readers.py",
    "tests/unit/spark/tables/test_change_order.py",
    "tests/unit/spark/tables/test_new_columns.py",
    "tests/unit/spark/tables/test_older_changes.py",
    "tests/unit/spark/tables/test_table_merges.py",
    "tests/unit/testing/test_replicated_work.py",
    "tests/unit/testing/test_shares_afar.py",
    "tests/unit/testing/test_shares_move.py",
    "tests/unit/testing/test_textbook_cases.py",
)
"""Beginnings of ids: property tests, kernels against their twins, simulated brokers, and readers of
tables, each with seconds of CPU time; and tests that wait for seconds of real time (heartbeats)."""


def is_slow(test: str) -> bool:
    """Say whether a test, by its id, is left to the target of its tree."""
    return test.startswith(tuple(SLOW)) and not test.startswith(KEPT)


def is_long(test: str) -> bool:
    """Say whether a test, by its id, is left to `make test`."""
    return test.startswith(LONG)
