"""The table that `make bench` prints: every goal judged, every row bounded and told apart."""

import time
from collections.abc import Iterator, Sequence

import pytest

from bench.__main__ import Table
from bench.report import Figure, Goal, print_table
from bench.sections import Section, all_sections, within
from bench.table_rows import all_rows


def slow(names: Sequence[str], rounds: int) -> Iterator[tuple[str, dict[str, float]]]:
    for _ in range(rounds):
        for name in names:
            yield name, {"s": 1.0}
    time.sleep(30)


def test_a_section_that_outstays_its_time_fails_and_what_it_found_stays() -> None:
    table = Table()
    table.run_section(Section("slow", slow, seconds_max=2, rounds_max=2), ["headrace"], 3)
    assert table.failed
    assert table.figures["slow", "s"].values == {"headrace": [1.0, 1.0]}
    assert table.seconds["slow"] < 20


def test_the_time_given_does_not_outlive_the_body() -> None:
    with within(0.05):
        pass
    time.sleep(0.1)


def test_all_titles_differ_and_all_have_a_bound() -> None:
    rows, sections = all_rows(True), all_sections(1.0)
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
