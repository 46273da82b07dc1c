"""Which tests are slow: left to the target of their tree and to `make test-all`.

`make check` and `make test` run with `-m "not slow"`. A test is slow by its own mark, or because it
lies in a tree or file named here; what is kept of these trees belongs to every change.
"""

SLOW = {
    "tests/spark/": "spark-test",
    "tests/outside/clients/": "clients-test",
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
    "tests/spark/test_range_reader.py",
    "tests/spark/test_security_options.py",
    "tests/spark/test_sink_runs.py",
    "tests/spark/test_spark_batch.py",
    "tests/spark/test_stream_reader.py",
    "tests/unit/testing/test_replicated_work.py::test_what_was_acknowledged_is_on_all_replicas",
)
"""Beginnings of ids within them: a real client of each protocol, jobs of Spark, three brokers."""


def is_slow(test: str) -> bool:
    """Say whether a test, by its id, is left to the target of its tree."""
    return test.startswith(tuple(SLOW)) and not test.startswith(KEPT)
