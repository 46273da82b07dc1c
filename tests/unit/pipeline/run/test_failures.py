"""Texts of Spark's errors as sentences and exit codes."""

import json
from pathlib import Path

import pytest

from headrace.model.nouns import TopicPartition
from headrace.pipeline.declarations import Check, Outcome
from headrace.pipeline.run.failures import FlowPlace, failure_of
from headrace.pipeline.run.planned_batch import unfinished
from headrace.pipeline.run.progress import batch_event
from headrace.spark.source.offsets import Position

HEAD = "[STREAM_FAILED] Query [id = 4aae9f3c, runId = 65a88ad1] terminated with exception: "
TAIL = """
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: orders [id = 4aae9f3c, runId = 65a88ad1]
Current Available Offsets: {x: {"headrace": {"bootstrap": "h:1"}}}
Project [headrace.spark.errors.DataLossError: not this one]"""
WORKER = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
PLANNER = (
    "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform "
    "latestOffset: "
)


def place(directory: Path, *checks: Check) -> FlowPlace:
    return FlowPlace("orders", directory, directory / "checkpoint", checks)


@pytest.mark.parametrize(
    ("said", "code", "text", "passing"),
    [
        (
            f"{PLANNER}headrace.spark.errors.BrokerAwayError: cannot connect to h:1: refused",
            3,
            "orders: cannot connect to h:1: refused",
            True,
        ),
        (
            f"{WORKER}headrace.spark.errors.SinkAwayError: no answer in 3 s",
            3,
            "orders: no answer in 3 s",
            True,
        ),
        (
            f"{PLANNER}headrace.spark.errors.DataLossError: orders-0 begins at 7; set "
            "failOnDataLoss to false to go on with what is there",
            12,
            "orders: orders-0 begins at 7; run with --accept-loss orders to go on without them",
            False,
        ),
        (
            f"{WORKER}headrace.spark.errors.RefusedValueError: t-0@10: expected an object. Options:"
            " mode=PERMISSIVE makes its fields null, mode=DROPMALFORMED leaves it out",
            11,
            "orders: t-0@10: expected an object",
            False,
        ),
        (
            f"{PLANNER}headrace.spark.errors.TooManyRefusedError: too many records are refused: 7"
            " of 9. These may be records of another schema: correct valueSchema, or raise"
            " quarantineShareMax",
            11,
            "orders: too many records are refused: 7 of 9. These may be records of another schema",
            False,
        ),
        (
            f"{WORKER}headrace.spark.errors.CheckFailedError: check 'c' failed: 3 of 9 rows",
            11,
            "orders: check 'c' failed: 3 of 9 rows",
            False,
        ),
        (
            f"{PLANNER}headrace.spark.errors.UnknownTopicError: there is no such topic: x; create"
            " it, or correct the option naming it",
            4,
            "orders: there is no such topic: x",
            False,
        ),
        (
            f"{WORKER}headrace.spark.tables.errors.TableError: /data: disk is full",
            1,
            "orders: /data: disk is full",
            False,
        ),
        (
            f"{WORKER}headrace.spark.errors.OptionError: topic: missing",
            2,
            "orders: topic: missing",
            False,
        ),
        (
            "[PYTHON_WORKER] Python worker failed to connect back.",
            1,
            "orders: a worker was lost: [PYTHON_WORKER] Python worker failed to connect back.",
            True,
        ),
        (
            "Job aborted: ExecutorLostFailure (executor 1 exited)",
            1,
            "orders: a worker was lost: Job aborted: ExecutorLostFailure (executor 1 exited)",
            True,
        ),
        (
            f"{WORKER}Traceback (most recent call last):\n"
            '  File "/venv/pyspark/serializers.py", line 477, in dumps\n'
            "_pickle.PicklingError: Could not serialize object: SinkAwayError: pipeline shop: h:1",
            3,
            "orders: pipeline shop: h:1",
            True,
        ),
        (
            f"{WORKER}Traceback (most recent call last):\n"
            "_pickle.PicklingError: Could not serialize object: SinkError: another query\n",
            1,
            "orders: another query",
            False,
        ),
        (
            "[DIVIDE_BY_ZERO] Division by zero.",
            1,
            "orders: [DIVIDE_BY_ZERO] Division by zero.",
            False,
        ),
    ],
)
def test_each_kind_of_error_has_its_code_and_one_sentence(
    tmp_path: Path, said: str, code: int, text: str, passing: bool
) -> None:
    failure = failure_of(HEAD + said + TAIL, place(tmp_path))
    assert (failure.code, failure.text, failure.passing) == (code, text, passing)


def plan(checkpoint: Path, batch: int, *ends: dict[TopicPartition, int]) -> None:
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    lines = ["v1", "{}", *(json.dumps(Position("h:1", end).to_json()) for end in ends)]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))


def finish(checkpoint: Path, batch: int) -> None:
    (checkpoint / "commits").mkdir(parents=True, exist_ok=True)
    (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_users_exception_names_function_line_batch_and_offsets(tmp_path: Path) -> None:
    """Rule 27: one line, which says where to look."""
    plan(tmp_path / "checkpoint", 6, {P0: 5, P1: 3})
    finish(tmp_path / "checkpoint", 6)
    plan(tmp_path / "checkpoint", 7, {P0: 9, P1: 3})
    traceback = f"""Traceback (most recent call last):
  File "/venv/pyspark/worker.py", line 9, in process
    run()
  File "{tmp_path}/transformations/orders.py", line 31, in normalise
    return helper(row)
  File "/tmp/spark-1/userFiles-2/code-0123456789ab.zip/lib/names.py", line 4, in helper
    return 1 // 0
           ~~^^~~
ZeroDivisionError: integer division or modulo by zero"""
    failure = failure_of(HEAD + WORKER + traceback + TAIL, place(tmp_path))
    assert failure.text == (
        "orders: helper (lib/names.py:4): ZeroDivisionError: integer division or modulo by zero, "
        "batch 7 (t-0@5..8)"
    )
    assert (failure.code, failure.passing) == (1, False)


def test_an_exception_of_a_parser_names_the_record_and_the_quarantine(tmp_path: Path) -> None:
    plan(tmp_path / "checkpoint", 0, {P0: 1500})
    traceback = f"""Traceback (most recent call last):
  File "/venv/headrace/pipeline/function_decoder.py", line 9, in _row
  File "{tmp_path}/till.py", line 25, in parse
ValueError: not enough values to unpack (expected 5, got 1)
(record t-0@9)"""
    failure = failure_of(HEAD + WORKER + traceback + TAIL, place(tmp_path))
    assert failure.text == (
        "orders: parse (till.py:25): ValueError: not enough values to unpack (expected 5, got 1),"
        " record t-0@9, batch 0 (up to t-0@1499); to quarantine such records, raise hp.Unreadable"
        " in the parser"
    )
    assert (failure.code, failure.passing) == (1, False)


def test_our_errors_below_a_users_traceback_are_the_users(tmp_path: Path) -> None:
    """An exception of the project's code that quotes one of ours is not taken for ours."""
    traceback = f"""Traceback (most recent call last):
  File "{tmp_path}/orders.py", line 3, in parse
ValueError: headrace.spark.errors.BrokerAwayError: text"""
    failure = failure_of(HEAD + WORKER + traceback + TAIL, place(tmp_path))
    assert failure.code == 1
    assert failure.text.startswith("orders: parse (orders.py:3): ValueError: ")


def test_an_error_in_the_expression_of_a_check_names_the_check(tmp_path: Path) -> None:
    """Rule 7: a check that raises is exit 1, and the text names it."""
    said = """[CAST_INVALID_INPUT] The value 'x0' cannot be cast to "INT". SQLSTATE: 22018
== SQL (line 1, position 1) ==
CAST(s AS INT) > 0
^^^^^^^^^^^^^^^^^^"""
    checks = [
        Check("s is a number", "id > 0 AND CAST(s AS INT) > 0", Outcome.DROP),
        Check("other", "id > 0", Outcome.FAIL),
    ]
    failure = failure_of(HEAD + said + TAIL, place(tmp_path, *checks))
    assert failure.code == 1
    assert failure.text == (
        "orders: check 's is a number' raised an error: [CAST_INVALID_INPUT] The value 'x0' cannot "
        'be cast to "INT".'
    )


@pytest.mark.parametrize(
    ("planned", "finished", "expected"),
    [
        ([], [], None),
        ([{P0: 4}], [0], None),
        ([{P0: 4, P1: 0}], [], "batch 0 (up to t-0@3)"),
        ([{P0: 4}, {P0: 9, P1: 2}], [0], "batch 1 (t-0@4..8, up to t-1@1)"),
        ([{P0: 4}, {P0: 4}], [0], "batch 1"),
    ],
)
def test_an_unfinished_batch_has_the_ranges_of_its_checkpoint(
    tmp_path: Path,
    planned: list[dict[TopicPartition, int]],
    finished: list[int],
    expected: str | None,
) -> None:
    for number, ends in enumerate(planned):
        plan(tmp_path, number, ends)
    for number in finished:
        finish(tmp_path, number)
    found = unfinished(tmp_path)
    assert (None if found is None else str(found)) == expected


def test_many_ranges_are_counted_after_three(tmp_path: Path) -> None:
    plan(tmp_path, 0, {TopicPartition("t", number): 1 for number in range(5)})
    assert str(unfinished(tmp_path)) == "batch 0 (up to t-0@0, up to t-1@0, up to t-2@0 and 2 more)"


def test_a_batch_of_two_sources_has_their_lag_and_offsets() -> None:
    def position(**offsets: int) -> dict[str, object]:
        ends = {TopicPartition(topic, 0): offset for topic, offset in offsets.items()}
        return Position("h:1", ends).to_json()

    event = batch_event(
        {
            "batchId": 4,
            "numInputRows": 12,
            "batchDuration": 410,
            "eventTime": {"watermark": "2026-11-28T10:31:00.000Z"},
            "stateOperators": [
                {"numRowsDroppedByWatermark": 2, "numRowsTotal": 30},
                {"numRowsDroppedByWatermark": 1, "numRowsTotal": 5},
            ],
            "sources": [
                {"endOffset": position(a=5), "latestOffset": position(a=9)},
                {"endOffset": position(b=7), "latestOffset": position(b=7)},
                {"endOffset": "rate", "latestOffset": None},
            ],
        }
    )
    assert event == {
        "batch": 4,
        "records": 12,
        "seconds": 0.41,
        "lag": 4,
        "offsets": {"a-0": 5, "b-0": 7},
        "watermark": "2026-11-28T10:31:00.000Z",
        "late": 3,
        "state_rows": 35,
    }
    bare = batch_event({"batchId": 0, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}})
    assert bare == {"batch": 0, "records": 0, "seconds": 0.0, "lag": None, "offsets": {}}
