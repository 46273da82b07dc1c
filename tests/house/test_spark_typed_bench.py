"""The rows of `make bench-spark` for typed topics: their records, goals and figures."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bench import spark_typed_sections
from bench.checkouts import HERE, Checkout
from bench.json_lines import BATCH_RECORDS, DDL, FIELDS, line_batches, lines
from bench.process_tree import resident_megabytes
from bench.report import between_versions
from bench.sections import Section
from bench.spark_sides import CONNECTOR, having
from bench.spark_table import all_sections
from bench.spark_typed import ROW_BYTES_MAX
from bench.spark_typed_sections import (
    BY_SPARK,
    FLOWS,
    MODES,
    OF_FROM_JSON,
    P50,
    UNDECLARED,
    of_clean,
    typed_sections,
)
from bench.subjects import OURS, Subject
from headrace.record.batch import parse_header
from headrace.typed.ddl import parse_ddl
from headrace.typed.plain import decode_record
from headrace.typed.refusal import Fault, Refusal

RECORDS = 1000


def checkout(root: Path) -> Checkout:
    """Return a checkout whose `bench` has no module yet."""
    (root / "bench").mkdir()
    (root / "bench" / "__init__.py").touch()
    return Checkout("other", root, HERE.python)


def section(wanted: str) -> Section:
    (found,) = [each for each in typed_sections(0.01) if wanted in each.title]
    return found


def test_records_have_the_declared_fields_a_time_and_a_long_double() -> None:
    assert tuple(each.name for each in parse_ddl(DDL).fields) == FIELDS
    rows = [json.loads(line) for line in lines(RECORDS)]
    assert all(datetime.fromisoformat(row["ts"]).microsecond % 1000 == 0 for row in rows)
    digits = [len(repr(row["amount"]).replace(".", "")) for row in rows if row["amount"]]
    assert sum(count >= 16 for count in digits) > 0.8 * RECORDS
    assert 0 < sum(row["amount"] is None for row in rows) < 0.05 * RECORDS
    assert 0 < sum("user" not in row for row in rows) < 0.05 * RECORDS


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3])
def test_the_share_of_malformed_records_is_refused(share: float) -> None:
    schema = parse_ddl(DDL)
    decoded = [decode_record(line, schema) for line in lines(RECORDS, share)]
    faults = {row.fault for row in decoded if isinstance(row, Refusal)}
    refused = sum(isinstance(row, Refusal) for row in decoded)
    assert abs(refused - share * RECORDS) <= 0.05 * RECORDS
    assert bool(refused) == bool(share)
    assert share < 0.3 or (Fault.TYPE in faults and len(faults) > 1)


def test_batches_hold_all_records_and_repeat_beyond_a_bound() -> None:
    batches = line_batches(10 * BATCH_RECORDS + 1)
    assert len(batches) == 11
    assert {parse_header(batch).record_count for batch in batches} == {BATCH_RECORDS}
    assert len(set(batches)) == len(batches)


def test_typed_rows_are_in_the_table_of_spark() -> None:
    titles = [each.title for each in all_sections(0.01)]
    assert {each.title for each in typed_sections(0.01)} < set(titles)
    assert all(0 < each.seconds_max <= 900 for each in typed_sections(1.0))
    assert all(each.rounds_max >= 3 for each in typed_sections(1.0))


@pytest.mark.parametrize(("row", "least"), [("to Parquet, zstd", 3.5), ("typed scan, all", 3.0)])
def test_rates_are_judged_beside_from_json_of_the_connector(row: str, least: float) -> None:
    goal = section(row).goals["rows/s"]
    assert goal.met(least)
    assert not goal.met(least - 0.01)


def test_a_typed_scan_is_twice_as_fast_as_from_json_of_our_source() -> None:
    ceiling = section("typed scan, all").ceilings[OF_FROM_JSON]
    assert ceiling.met(2)
    assert not ceiling.met(1.99)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("share", "most"), [(0.01, 1.1), (0.3, 1.5)])
def test_malformed_values_may_cost_a_bounded_share(mode: str, share: float, most: float) -> None:
    ceiling = section("malformed").ceilings[of_clean(mode, share)]
    assert ceiling.met(most)
    assert not ceiling.met(most + 0.01)


def test_a_flow_of_ten_is_done_before_its_next_trigger() -> None:
    ceiling = section("ten flows").ceilings[P50]
    assert ceiling.met(10_000)
    assert not ceiling.met(10_001)


def test_figures_are_rates_and_costs_beside_another_checkout() -> None:
    rate, cost = between_versions("rows/s", 0.9), between_versions("p50 ms", 0.9)
    for unit in ("rows/s", BY_SPARK, OF_FROM_JSON, "PERMISSIVE, clean: rows/s"):
        assert between_versions(unit, 0.9) == rate
    for unit in ("driver RSS MB", "CPU-s/M rows", of_clean("PERMISSIVE", 0.01)):
        assert between_versions(unit, 0.9) == cost


def test_a_checkout_without_a_function_is_told_from_a_broken_one(tmp_path: Path) -> None:
    other = checkout(tmp_path)
    assert not other.has("row", "scan")
    (tmp_path / "bench" / "row.py").write_text("def scan(spark):\n    raise RuntimeError\n")
    assert other.has("row", "scan")
    assert not other.has("row", "write")
    (tmp_path / "bench" / "row.py").write_text("import a_module_that_does_not_exist\n")
    with pytest.raises(RuntimeError, match="a_module_that_does_not_exist"):
        other.has("row", "scan")


def test_the_connector_runs_the_functions_of_this_checkout(tmp_path: Path) -> None:
    old = Subject("other", OURS.broker, checkout(tmp_path))
    subjects = [OURS, CONNECTOR, old]
    assert having(subjects, "spark_flows", "measure") == ([OURS, CONNECTOR], [old])
    assert having(subjects, "spark_typed", "no_such") == ([CONNECTOR], [OURS, old])


def test_resident_memory_counts_each_process_whole_and_ended_ones_not() -> None:
    own = resident_megabytes([os.getpid()])
    assert 5 < own < 5000
    assert resident_megabytes([os.getpid(), 2**30]) == pytest.approx(own, rel=0.1)


@dataclass
class PlayedSide:
    """A side whose session answers from a table, in place of Spark."""

    name: str
    headrace: bool
    digests: dict[str, list[str]] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    format: str = "played"
    row_bytes_max: int = 0

    @property
    def spark(self) -> "PlayedSide":
        return self

    @property
    def broker(self) -> "PlayedSide":
        return self

    @property
    def bootstrap(self) -> str:
        return self.name

    def topic(self, name: str) -> str:
        return name

    def call(self, module: str, function: str, *arguments: Any) -> Any:
        """Return seconds by parser, mode and topic: a scan by `from_json` takes 4 s.

        A write into our table takes half of the time if the size of rows is declared.
        """
        self.calls.append((module, function, *arguments))
        if function == "declare_rows":
            self.row_bytes_max = arguments[0]
            return None
        _, _, topic, parser, *rest = arguments
        held = self.digests.get(rest[0] if rest and function == "write" else parser, ["1000", "7"])
        if function == "digest":
            return held
        if function == "measure":
            return {P50: 700.0}
        seconds = {"valueSchema": 1.0, "from_json": 4.0}[parser]
        if function == "write":
            if rest[0] == "parquet":
                return seconds * 2, 3.0, held
            return (seconds / 2, 1.5, held) if self.row_bytes_max else (seconds, 3.0, held)
        return seconds * {"typed-0.01": 1.05, "typed-0.3": 1.25}.get(str(topic), 1.0), 3.0


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> list[PlayedSide]:
    played = [PlayedSide("headrace", True), PlayedSide("connector", False)]

    @contextmanager
    def sides_of(subjects: Sequence[Subject]) -> Iterator[list[PlayedSide]]:
        names = [subject.name for subject in subjects]
        yield [side for side in played if side.name in names]

    def fill(*_: object, **__: object) -> int:
        return RECORDS

    monkeypatch.setattr(spark_typed_sections, "sides_of", sides_of)
    monkeypatch.setattr(spark_typed_sections, "fill", fill)
    return played


def figures(wanted: str, rounds: int = 2) -> list[tuple[str, dict[str, float]]]:
    return list(section(wanted).measure([OURS, CONNECTOR], rounds))


def test_parquet_is_written_by_our_table_and_by_spark(sides: list[PlayedSide]) -> None:
    found = figures("to Parquet, zstd")
    assert [name for name, _ in found] == ["connector", "headrace", "headrace", "connector"]
    assert found[1][1] == {
        "rows/s": 2000,
        "CPU-s/M rows": 1500,
        f"{UNDECLARED}rows/s": 1000,
        f"{UNDECLARED}CPU-s/M rows": 3000,
        BY_SPARK: 500,
    }
    assert found[0][1] == {"rows/s": 125, "CPU-s/M rows": 3000}
    assert sum(call[1] == "write" for call in sides[0].calls) == 3 * (1 + 2)


def test_the_size_of_rows_is_declared_for_one_write_of_ours(sides: list[PlayedSide]) -> None:
    figures("to Parquet, zstd", rounds=1)
    declared = [call[2:] for call in sides[0].calls if call[1] == "declare_rows"]
    assert declared == [(ROW_BYTES_MAX,), (0,)] * 2
    assert not [call for call in sides[1].calls if call[1] == "declare_rows"]


def test_a_checkout_that_cannot_declare_rows_writes_without(
    sides: list[PlayedSide], monkeypatch: pytest.MonkeyPatch
) -> None:
    def older(
        subjects: Sequence[Subject], _: str, function: str
    ) -> tuple[list[Subject], list[Subject]]:
        return ([], [*subjects]) if function == "declare_rows" else ([*subjects], [])

    monkeypatch.setattr(spark_typed_sections, "having", older)
    found = dict(figures("to Parquet, zstd", rounds=1))["headrace"]
    assert found == {"rows/s": 1000, "CPU-s/M rows": 3000, BY_SPARK: 500}
    assert not [call for call in sides[0].calls if call[1] == "declare_rows"]


@pytest.mark.parametrize(
    ("at", "parser"),
    [(0, "valueSchema"), (0, "from_json"), (1, "from_json"), (0, "headrace-table"), (0, "parquet")],
)
def test_other_rows_than_the_others_end_the_measurement(
    sides: list[PlayedSide], at: int, parser: str
) -> None:
    sides[at].digests[parser] = ["1000", "8"]
    with pytest.raises(RuntimeError, match=r"differ|instead of"):
        figures("to Parquet, zstd")


def test_fewer_rows_than_records_end_the_measurement(sides: list[PlayedSide]) -> None:
    sides[1].digests["from_json"] = ["999", "7"]
    with pytest.raises(RuntimeError, match="999 rows of 1000 records"):
        figures("typed scan, all")


def test_a_scan_is_compared_with_from_json_in_its_session(sides: list[PlayedSide]) -> None:
    found = figures("typed scan, all")
    assert [name for name, _ in found] == ["connector", "headrace", "headrace", "connector"]
    assert found[1][1]["rows/s"] == 1000
    assert found[1][1][OF_FROM_JSON] == 4
    assert found[0][1]["rows/s"] == 250
    assert OF_FROM_JSON not in found[0][1]
    parsers = [call[5] for call in sides[0].calls if call[1] == "scan"]
    assert parsers == ["valueSchema", "from_json", "from_json", "valueSchema", *parsers[:2]]


def test_malformed_scans_are_compared_with_a_clean_one_of_their_mode(
    sides: list[PlayedSide],
) -> None:
    found = figures("malformed")
    assert [name for name, _ in found] == ["headrace"] * len(MODES) * 2
    merged = found[0][1] | found[1][1]
    for mode in MODES:
        assert merged[f"{mode}, clean: rows/s"] == 1000
        assert merged[of_clean(mode, 0.01)] == 1.05
        assert merged[of_clean(mode, 0.3)] == 1.25
    assert {call[6] for call in sides[0].calls} == set(MODES)
    assert not sides[1].calls


def test_ten_flows_run_in_one_session(sides: list[PlayedSide]) -> None:
    found = figures("ten flows")
    assert sorted(name for name, _ in found) == ["connector"] * 2 + ["headrace"] * 2
    for side in sides:
        assert all(len(set(call[4])) == FLOWS for call in side.calls)
    assert {call[6] for call in sides[0].calls} == {"headrace-table"}
    assert {call[6] for call in sides[1].calls} == {"parquet"}


def test_rows_that_the_other_checkout_lacks_are_not_there(
    sides: list[PlayedSide], tmp_path: Path
) -> None:
    old = Subject("other", OURS.broker, checkout(tmp_path))
    for each in typed_sections(0.01):
        found = list(each.measure([OURS, old], 1))
        assert [name for name, figures in found if not figures] == ["other"]
        assert {name for name, figures in found if figures} == {"headrace"}
    assert sides[0].calls
