"""The rows of the keys: docs/configuration.md says each of them, and they mean what it says."""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace.config

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The tool that writes the reference, on rows that are made anew.

    So that the rows are run in the tests that look at them: coverage then knows who these are.
    """
    monkeypatch.setattr(sys.modules["headrace"], "config", headrace.config)
    for name in [name for name in sys.modules if f"{name}.".startswith("headrace.config.")]:
        monkeypatch.delitem(sys.modules, name)
    yield runpy.run_path(str(ROOT / "tools" / "gen_config_docs.py"))
    for name in [name for name in sys.modules if f"{name}.".startswith("headrace.config.")]:
        del sys.modules[name]


def test_the_reference_in_docs_is_what_the_tables_say(tool: dict[str, Any]) -> None:
    assert (ROOT / "docs" / "configuration.md").read_text("utf-8") == tool["render"]()


def test_keys_that_are_unset_take_those_of_a_coarser_unit(tool: dict[str, Any]) -> None:
    hour = 3_600_000
    assert {row.name: row.coarser for row in tool["BROKER"].values() if row.coarser} == {
        "log.dirs": (("log.dir", 1),),
        "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
        "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", hour)),
        "log.roll.jitter.ms": (("log.roll.jitter.hours", hour),),
        "log.roll.ms": (("log.roll.hours", hour),),
    }


def test_keys_without_an_effect_are_taken_within_kafkas_bounds(tool: dict[str, Any]) -> None:
    rows = [row for row in tool["TOPIC"].values() if not row.in_use]
    assert [(row.name, row.kind.name, row.default, row.must_be) for row in rows] == [
        ("local.retention.bytes", "LONG", -2, "at least -2"),
        ("local.retention.ms", "LONG", -2, "at least -2"),
        ("preallocate", "BOOLEAN", False, ""),
        ("remote.log.copy.disable", "BOOLEAN", False, ""),
        ("remote.log.delete.on.disable", "BOOLEAN", False, ""),
        ("remote.storage.enable", "BOOLEAN", False, "one of false"),
    ]


def test_the_types_of_keys_have_kafkas_numbers(tool: dict[str, Any]) -> None:
    numbers = "BOOLEAN 1, STRING 2, INT 3, SHORT 4, LONG 5, DOUBLE 6, LIST 7, CLASS 8, PASSWORD 9"
    assert ", ".join(f"{kind.name} {kind}" for kind in tool["Kind"]) == f"UNKNOWN 0, {numbers}"
