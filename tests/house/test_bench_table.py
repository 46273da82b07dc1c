"""The table that `make bench` prints: every goal judged, every row bounded and told apart."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench import leadership, loading, truncations
from bench.__main__ import Table
from bench.checkouts import HERE, Checkout, NotThereError
from bench.cluster_sections import cluster_sections
from bench.report import Figure, Goal, between_versions, print_table
from bench.sections import Section, all_sections, within
from bench.secured_sections import secured_sections
from bench.spark_table import OF_PARQUET, OVER_EMPTY
from bench.spark_table import all_sections as spark_sections
from bench.subjects import KAFKA, OURS, Subject, in_turn
from bench.table_rows import all_rows


def slow(subjects: Sequence[Subject], rounds: int) -> Iterator[tuple[str, dict[str, float]]]:
    for _ in range(rounds):
        for subject in subjects:
            yield subject.name, {"s": 1.0}
    time.sleep(30)


def test_a_section_that_outstays_its_time_fails_and_what_it_found_stays() -> None:
    table = Table()
    table.run_section(Section("slow", slow, seconds_max=2, rounds_max=2), [OURS], 3)
    assert table.failed
    assert table.figures["slow", "s"].values == {"headrace": [1.0, 1.0]}
    assert table.seconds["slow"] < 20


def test_the_time_given_does_not_outlive_the_body() -> None:
    with within(0.05):
        pass
    time.sleep(0.1)


def test_rows_of_spark_differ_are_bounded_and_judged() -> None:
    sections = spark_sections(0.01)
    assert len({section.title for section in sections}) == len(sections)
    assert all(0 < section.seconds_max <= 900 for section in sections)
    scan, sink, batch, batch_async, *_ = sections
    assert scan.goals["rows/s"].met(3.0)
    assert not scan.goals["rows/s"].met(2.9)
    assert not scan.ceilings[OF_PARQUET].met(0.41)
    assert not sink.goals["exactly once rows/s"].met(0.99)
    for section in (batch, batch_async):
        assert not section.goals["p50 ms"].met(1.16)
        assert not section.ceilings[OVER_EMPTY].met(15.1)


def test_all_titles_differ_and_all_have_a_bound() -> None:
    rows = all_rows(True)
    sections = [*all_sections(1.0), *secured_sections(1.0), *cluster_sections(1.0)]
    titles = [row.title for row in rows] + [one.title for one in sections]
    assert len(set(titles)) == len(titles)
    bounds = [row.seconds_max for row in rows] + [one.seconds_max for one in sections]
    assert all(0 < bound <= 900 for bound in bounds)


@pytest.mark.parametrize(
    "wanted",
    ["compaction of 10 M records", "recovery of 10 GB", "10,000 partitions", "Arrow scan"],
)
def test_what_the_log_promises_has_a_section_with_goals(wanted: str) -> None:
    (section,) = [one for one in all_sections(1.0) if wanted in one.title]
    assert section.goals or section.ceilings


def test_a_smaller_size_is_said_in_the_title() -> None:
    titles = " ".join(one.title for one in all_sections(0.01))
    assert "100,000 records" in titles
    assert "0.1 GB" in titles


def test_a_goal_that_is_missed_is_said_and_a_peer_may_be_absent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = [
        Figure("fast", "MB/s", goal=Goal(least=2), values={"headrace": [3.0], "kafka": [1.0]}),
        Figure("late", "s", ceiling=Goal(most=4), values={"headrace": [5.0]}),
        Figure("broken", "s", goal=Goal(most=1), values={"kafka": [5.0]}),
    ]
    print_table(figures, {"fast": 12.0}, rounds=1, peer="kafka")
    printed = capsys.readouterr().out
    assert "ok ≥ 2" in printed
    assert "MISSED ≤ 4 s" in printed
    assert "12" in printed


@pytest.mark.parametrize(
    "wanted",
    ["[page cache]", "[flushed]", "at rest", "catches up", "1,000 partitions dies", "is stopped"],
)
def test_what_three_brokers_promise_has_a_section_with_goals(wanted: str) -> None:
    (section,) = [one for one in cluster_sections(1.0) if wanted in one.title]
    assert section.goals or section.ceilings


@pytest.mark.parametrize(
    ("unit", "other", "worse"),
    [
        ("requests/s", 100.0, 94.0),
        ("M records/CPU-s", 40.0, 37.9),
        ("% of sendfile", 90.0, 85.0),
        ("threads, 100 files: ms", 10.0, 10.6),
        ("CPU-us/request", 3.0, 3.2),
        ("RSS idle MB", 30.0, 31.7),
    ],
)
def test_a_rate_below_the_other_version_s_and_a_cost_above_it_are_missed(
    unit: str, other: float, worse: float
) -> None:
    goal = between_versions(unit, 0.95)
    for ours, said in ((worse, "MISSED"), (other, "ok")):
        figure = Figure("row", unit, goal, values={"other": [other], "headrace": [ours]})
        assert figure.verdict().startswith(said)


def test_what_the_machine_gives_is_no_version_s_merit() -> None:
    assert between_versions("sendfile MB/s", 0.95) is None


def test_a_row_that_the_other_version_does_not_have_is_said_not_to_be_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table(0.95)
    table.add_all("headrace", "new", {"s": 1.0}, None)
    table.add_all("other", "new", {}, None)
    print_table(list(table.figures.values()), {}, rounds=1, peer="other", absent=table.absent)
    assert "not there" in capsys.readouterr().out


def test_each_subject_goes_first_in_every_other_round() -> None:
    assert [in_turn([OURS, KAFKA], turn)[0].name for turn in range(4)] == [
        "headrace", "kafka", "headrace", "kafka",
    ]  # fmt: skip


def test_a_checkout_measures_with_its_own_code_in_a_process_of_its_own(tmp_path: Path) -> None:
    other = Checkout("other", tmp_path, HERE.python)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").touch()
    (tmp_path / "bench" / "row.py").write_text("def times(a, b):\n    yield from (a, b, a * b)\n")
    assert other.call("row", "times", 6, 7) == [6, 7, 42]
    with pytest.raises(NotThereError):
        other.call("row", "divided", 6, 7)
    with pytest.raises(NotThereError):
        other.call("loading", "measure")
    with pytest.raises(RuntimeError, match="TypeError"):
        other.call("row", "times", 6)


def test_a_directory_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no checkout that was set up"):
        Checkout.at("other", tmp_path)


def test_what_is_measured_without_a_broker_still_runs(tmp_path: Path) -> None:
    assert loading.measure(2, 300)["s"] > 0
    assert truncations.measure(tmp_path, 3)
    assert leadership.measure(6)
