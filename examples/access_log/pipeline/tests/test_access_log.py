"""The pipeline's own tests: `headrace pipeline test examples/access_log/pipeline`."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipeline.given.records import GivenRecord
    from headrace.testing.pipeline import PipelineUnderTest

NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
NOISY = 300


def line(at: datetime, client: str = "192.0.2.1", status: int = 200, took: float = 0.01) -> bytes:
    return (
        f"{client} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "
        f'"GET /docs/?page=1 HTTP/1.1" {status} 100 "-" "Test/1" {at.timestamp():.3f} {took:.3f}'
    ).encode()


def heartbeat(pipeline: "PipelineUnderTest", minutes: int) -> "GivenRecord":
    """Return a record without value, some minutes after noon."""
    return pipeline.record(None, timestamp=NOON + timedelta(minutes=minutes))


def test_a_line_is_in_requests_or_the_quarantine_and_a_heartbeat_in_neither(
    pipeline: "PipelineUnderTest",
) -> None:
    run = pipeline.given(
        "access-log",
        [line(NOON), b"\xff junk", heartbeat(pipeline, 0), line(NOON, status=404)],
    )
    assert run.rows("requests", "status", "_offset") == [(200, 0), (404, 3)]
    assert run.quarantined("access-log") == [("no client address at byte 0", b"\xff junk")]


def test_a_heartbeat_closes_the_last_window(pipeline: "PipelineUnderTest") -> None:
    lines = [line(NOON), line(NOON + timedelta(seconds=59))]
    assert pipeline.given("access-log", lines).rows("windows") == []
    run = pipeline.given("access-log", lines, [heartbeat(pipeline, 4)])
    assert run.rows("windows", "window_start", "requests") == [(NOON, 2)]


def test_a_window_of_heartbeats_alone_is_not_written(pipeline: "PipelineUnderTest") -> None:
    beats = [[heartbeat(pipeline, minutes)] for minutes in (4, 9)]
    run = pipeline.given("access-log", [line(NOON)], *beats)
    assert run.rows("windows", "requests") == [(1,)]


def test_a_damaged_line_does_not_advance_the_watermark(pipeline: "PipelineUnderTest") -> None:
    junk = pipeline.record(b"junk", timestamp=NOON + timedelta(days=30))
    early, late = line(NOON), line(NOON + timedelta(seconds=30))
    run = pipeline.given("access-log", [early, junk], [late], [heartbeat(pipeline, 4)])
    assert run.rows("windows", "requests") == [(2,)]
    assert run.late("windows") == 0


def test_a_line_behind_the_watermark_is_late(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given(
        "access-log", [line(NOON)], [line(NOON + timedelta(minutes=9))], [line(NOON)]
    )
    assert run.rows("windows", "requests") == [(1,)]
    assert run.late("windows") == 1


def test_a_window_counts_errors_latency_bytes_paths_and_noisy_clients(
    pipeline: "PipelineUnderTest",
) -> None:
    quiet = [line(NOON, f"192.0.2.{i}", took=0.5 if i == 9 else 0.02) for i in range(2, 10)]
    loud = [line(NOON, "203.0.113.9", status=429)] * NOISY
    other = [line(NOON, status=502), line(NOON, status=502), line(NOON, status=301)]
    run = pipeline.given("access-log", [*quiet, *loud, *other], [heartbeat(pipeline, 4)])
    count = len(quiet) + len(loud) + len(other)
    columns = ("requests", "redirects", "client_errors", "server_errors", "bytes", "clients")
    assert run.rows("windows", *columns) == [(count, 1, NOISY, 2, 100 * count, 10)]
    assert run.rows("windows", "p50_ms", "p99_ms") == [(10, 20)]
    ((paths, noisy),) = run.rows("windows", "top_paths", "noisy_clients")
    assert paths == [{"path": "/docs/", "requests": count}]
    assert noisy == [{"client": "203.0.113.9", "requests": NOISY}]


def test_five_percent_of_server_errors_are_counted(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given("access-log", [*[line(NOON)] * 3, line(NOON, status=500)])
    assert len(run.rows("requests")) == 4
    assert run.failed("requests", "server errors are rare") == 1
