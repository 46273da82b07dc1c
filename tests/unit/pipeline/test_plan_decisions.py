"""Verdicts against `applied.json` and the storage, decisions, and the refusal of a run.

Prints are made by hand: no Spark is needed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.graph import Place
from headrace.pipeline.load import Finding
from headrace.pipeline.plan import decisions
from headrace.pipeline.plan.applied import Applied, read_applied, write_applied
from headrace.pipeline.plan.compare import Verdict
from headrace.pipeline.plan.decisions import (
    DecisionError,
    UnknownFlowError,
    accept,
    new_version,
    refusal_of,
)
from headrace.pipeline.plan.planned import ProjectPlan, planned_flows
from headrace.pipeline.project import Project, load_project
from headrace.pipeline.run.lock import HeldError, Holder, held
from headrace.pipeline.run.storage import Storage
from tests.unit.pipeline.test_plan_compare import STATEFUL, STATELESS, TO_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.pipeline.plan.flow_print import FlowPrint

CHANGED = replace(STATEFUL, functions={"paid": "2"})
REFUSED = replace(STATEFUL, operators=())
SAME, COMPATIBLE, MEANING, NEW = (
    Verdict.SAME,
    Verdict.COMPATIBLE,
    Verdict.MEANING,
    Verdict.NEW,
)


class Shop:
    """A project whose prints a test sets."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (place / "pipeline.toml").write_text('name = "shop"')
        self.project: Project = load_project(place)
        self.storage = Storage(place / "data")
        self.prints: Mapping[str, FlowPrint] = {}
        self.findings: tuple[Finding, ...] = ()
        self.code = "1"
        monkeypatch.setattr(decisions, "plan_of", self.plan)

    def plan(self, project: Project, storage: Storage, *session: object) -> ProjectPlan:
        applied = read_applied(storage.applied)
        places = {name: Place("/shop/all.py", 7) for name in self.prints}
        flows = planned_flows(self.prints, places, applied, storage)
        if self.findings:
            flows = ()
        return ProjectPlan("shop", flows, applied, self.code, self.prints, self.findings)

    def start(self, **prints: FlowPrint) -> str | None:
        """Start a run with these flows; its queries create their checkpoints."""
        self.prints = prints
        refusal = refusal_of(self.project, self.storage, None)  # type: ignore[arg-type]
        if refusal is None:
            for name, flow in prints.items():
                checkpoint = self.storage.checkpoint(flow.target.name, name)
                (checkpoint / "commits").mkdir(parents=True, exist_ok=True)
                if flow.target.kind == "table":
                    self.storage.table(flow.target.name).mkdir(exist_ok=True)
        return refusal

    def verdicts(self, **prints: FlowPrint) -> dict[str, Verdict]:
        self.prints = prints
        flows = self.plan(self.project, self.storage).flows
        return {flow.name: flow.comparison.verdict for flow in flows}

    def files(self) -> dict[str, bytes]:
        """Return the content of all files of the storage."""
        root = self.storage.root
        return {str(each): each.read_bytes() for each in root.rglob("*") if each.is_file()}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, monkeypatch)


def test_first_start_is_of_new_flows_and_later_ones_of_the_same(shop: Shop) -> None:
    assert shop.verdicts(revenue=STATEFUL, alerts=TO_TOPIC) == {"revenue": NEW, "alerts": NEW}
    assert shop.start(revenue=STATEFUL, alerts=TO_TOPIC) is None
    assert shop.verdicts(revenue=STATEFUL, alerts=TO_TOPIC) == {"revenue": SAME, "alerts": SAME}


@pytest.mark.parametrize(("now", "verdict"), [(CHANGED, "meaning"), (REFUSED, "incompatible")])
def test_run_refuses_what_needs_a_decision_and_stores_nothing(
    shop: Shop, now: FlowPrint, verdict: str
) -> None:
    shop.start(revenue=STATEFUL, alerts=TO_TOPIC)
    before = shop.files()
    other = replace(TO_TOPIC, whole="changed, too")
    refusal = shop.start(revenue=now, alerts=other)
    assert refusal is not None
    assert refusal.startswith("revenue: ")
    assert "alerts" not in refusal
    assert f"decide with `headrace pipeline plan {shop.project.directory}`" in refusal
    assert shop.files() == before
    assert shop.verdicts(revenue=now, alerts=other)["revenue"].value.startswith(verdict)


def test_run_stores_a_compatible_change_as_applied(shop: Shop) -> None:
    shop.start(orders=STATELESS)
    now = replace(STATELESS, columns=(*STATELESS.columns, ("x", "int", True)))
    assert shop.verdicts(orders=now) == {"orders": COMPATIBLE}
    assert shop.start(orders=now) is None
    assert shop.verdicts(orders=now) == {"orders": SAME}
    assert shop.verdicts(orders=STATELESS) == {"orders": Verdict.INCOMPATIBLE}


def test_run_with_errors_in_its_files_stores_nothing(shop: Shop) -> None:
    shop.findings = (Finding("wrong"),)
    assert shop.start(orders=STATELESS) is None
    assert read_applied(shop.storage.applied) == Applied()


def test_accepted_flow_is_the_same_from_then_on(shop: Shop) -> None:
    shop.start(revenue=STATEFUL, alerts=TO_TOPIC)
    to_other = replace(TO_TOPIC, target=replace(TO_TOPIC.target, format="x"))
    shop.prints = {"revenue": CHANGED, "alerts": to_other}
    assert accept(shop.project, shop.storage, "revenue").comparison.verdict is MEANING
    found = shop.verdicts(revenue=CHANGED, alerts=to_other)
    assert found == {"revenue": SAME, "alerts": MEANING}
    assert shop.verdicts(revenue=STATEFUL)["revenue"] is MEANING
    assert read_applied(shop.storage.applied).code == ""
    assert shop.storage.checkpoint("revenue", "revenue").name == "0"
    refusal = shop.start(revenue=CHANGED, alerts=to_other)
    assert refusal is not None
    assert refusal.startswith("alerts: ")


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (STATEFUL, r"revenue is same \(nothing changed\): there is nothing to accept$"),
        (REFUSED, r"revenue is incompatible .*; choose --new-version$"),
    ],
)
def test_only_a_change_of_meaning_can_be_accepted(shop: Shop, now: FlowPrint, message: str) -> None:
    shop.start(revenue=STATEFUL)
    before = shop.files()
    shop.prints = {"revenue": now}
    with pytest.raises(DecisionError, match=message):
        accept(shop.project, shop.storage, "revenue")
    before.pop(str(shop.storage.lock), None)
    after = shop.files()
    after.pop(str(shop.storage.lock))
    assert after == before


def test_new_version_starts_all_flows_of_the_table_at_the_beginning(shop: Shop) -> None:
    other = replace(STATELESS, sources=STATELESS.sources[:1])
    shop.start(revenue=STATEFUL, more=other, alerts=TO_TOPIC)
    shop.prints = {"revenue": REFUSED, "more": other, "alerts": TO_TOPIC}
    assert new_version(shop.project, shop.storage, "revenue") == ("revenue", "more")
    assert shop.storage.table("revenue").name == "revenue@1"
    assert shop.storage.checkpoint("revenue", "more").name == "1"
    assert shop.storage.checkpoint("alerts", "alerts").name == "0"
    assert shop.verdicts(**shop.prints) == {"revenue": NEW, "more": NEW, "alerts": SAME}
    assert shop.start(**shop.prints) is None
    assert shop.verdicts(**shop.prints) == dict.fromkeys(shop.prints, SAME)
    assert (shop.storage.root / "_checkpoints/revenue/revenue/0/commits").is_dir()
    assert new_version(shop.project, shop.storage, "more") == ("revenue", "more")
    assert shop.storage.table("revenue").name == "revenue@2"


def test_flow_added_to_a_later_version_gets_its_number(shop: Shop) -> None:
    shop.start(revenue=STATEFUL)
    new_version(shop.project, shop.storage, "revenue")
    shop.start(revenue=STATEFUL)
    assert shop.start(revenue=STATEFUL, more=STATELESS) is None
    assert (shop.storage.root / "_checkpoints/revenue/more/1/commits").is_dir()


def test_new_version_of_a_flow_that_never_ran_is_refused(shop: Shop) -> None:
    shop.prints = {"revenue": STATEFUL}
    with pytest.raises(DecisionError, match="revenue has no checkpoint"):
        new_version(shop.project, shop.storage, "revenue")
    assert shop.storage.version("revenue") == 0


def test_a_crash_within_a_new_version_leaves_a_flow_that_starts_anew(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.start(revenue=STATEFUL)
    shop.prints = {"revenue": REFUSED}

    def crash(path: Path, applied: Applied) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(decisions, "write_applied", crash)
        with pytest.raises(OSError, match="no space"):
            new_version(shop.project, shop.storage, "revenue")
    assert shop.verdicts(revenue=REFUSED) == {"revenue": NEW}
    assert shop.start(revenue=REFUSED) is None
    assert shop.storage.table("revenue").name == "revenue@1"


def test_a_run_that_ended_before_its_first_query_leaves_new_flows(shop: Shop) -> None:
    shop.prints = {"revenue": STATEFUL}
    assert refusal_of(shop.project, shop.storage, None) is None  # type: ignore[arg-type]
    assert shop.verdicts(revenue=STATEFUL) == {"revenue": NEW}
    assert shop.verdicts(revenue=REFUSED) == {"revenue": NEW}


def test_lost_checkpoint_of_a_written_table_is_compared(shop: Shop) -> None:
    shop.start(revenue=STATEFUL)
    commits = shop.storage.checkpoint("revenue", "revenue") / "commits"
    commits.rmdir()
    assert shop.verdicts(revenue=REFUSED) == {"revenue": Verdict.INCOMPATIBLE}
    assert shop.verdicts(revenue=STATEFUL) == {"revenue": NEW}


def test_checkpoint_of_an_unknown_definition_needs_a_decision(shop: Shop) -> None:
    shop.start(revenue=STATEFUL)
    shop.storage.applied.unlink()
    assert shop.verdicts(revenue=STATEFUL) == {"revenue": MEANING}
    refusal = shop.start(revenue=STATEFUL)
    assert refusal is not None
    assert "the definition that wrote it is unknown" in refusal
    accept(shop.project, shop.storage, "revenue")
    assert shop.start(revenue=STATEFUL) is None


def test_removed_flow_is_reported_once_and_compared_when_it_returns(shop: Shop) -> None:
    shop.start(revenue=STATEFUL, alerts=TO_TOPIC)
    assert shop.verdicts(alerts=TO_TOPIC) == {"alerts": SAME, "revenue": Verdict.GONE}
    assert shop.start(alerts=TO_TOPIC) is None
    assert shop.verdicts(alerts=TO_TOPIC) == {"alerts": SAME}
    assert shop.verdicts(alerts=TO_TOPIC, revenue=CHANGED)["revenue"] is MEANING
    shop.prints = {"alerts": TO_TOPIC}
    with pytest.raises(UnknownFlowError, match="no flow revenue; its flows: alerts"):
        new_version(shop.project, shop.storage, "revenue")


def test_renamed_flow_of_a_table_would_write_all_rows_twice(shop: Shop) -> None:
    shop.start(revenue=STATEFUL)
    assert shop.verdicts(sums=STATEFUL) == {"sums": MEANING, "revenue": Verdict.GONE}
    refusal = shop.start(sums=STATEFUL)
    assert refusal is not None
    assert "flow revenue is gone: sums begins at the earliest records" in refusal
    with pytest.raises(DecisionError, match="revenue is not declared any more"):
        new_version(shop.project, shop.storage, "revenue")
    accept(shop.project, shop.storage, "sums")
    assert shop.start(sums=STATEFUL) is None


def test_decisions_wait_for_no_run(shop: Shop) -> None:
    shop.start(revenue=STATEFUL)
    shop.prints = {"revenue": CHANGED}
    with held(shop.storage.lock, Holder("r1", 1, "db7", "today")):
        for decide in (accept, new_version):
            with pytest.raises(HeldError, match="run r1 on db7"):
                decide(shop.project, shop.storage, "revenue")
    assert accept(shop.project, shop.storage, "revenue").name == "revenue"


def test_decision_on_a_project_with_errors_is_refused(shop: Shop) -> None:
    shop.start(revenue=STATEFUL)
    shop.findings = (Finding("wrong"),)
    with pytest.raises(DecisionError, match="the project has errors: wrong"):
        accept(shop.project, shop.storage, "revenue")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"format": 1, "code": "", "flows": 3}'])
def test_damaged_file_of_definitions_is_an_error(shop: Shop, content: bytes) -> None:
    shop.storage.own.mkdir(parents=True)
    shop.storage.applied.write_bytes(content)
    with pytest.raises(DeclarationError, match=r"applied\.json is damaged: delete it"):
        read_applied(shop.storage.applied)


def test_definitions_of_a_newer_version_are_an_error(shop: Shop) -> None:
    shop.start(revenue=STATEFUL)
    found = json.loads(shop.storage.applied.read_text())
    shop.storage.applied.write_text(json.dumps({**found, "format": 2}))
    with pytest.raises(DeclarationError, match="has format 2, written by a newer version"):
        read_applied(shop.storage.applied)


def test_definitions_are_equal_when_read_again(tmp_path: Path) -> None:
    applied = Applied().started("1", {"revenue": STATEFUL}).started("2", {"alerts": TO_TOPIC})
    write_applied(tmp_path / "new" / "applied.json", applied)
    assert read_applied(tmp_path / "new" / "applied.json") == applied
    flow = applied.get("revenue")
    assert flow is not None
    assert not flow.active
