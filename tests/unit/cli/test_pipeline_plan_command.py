"""`headrace pipeline plan`: lines, JSON and exit codes, with stand-ins for plans and decisions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headrace.cli.main import run as command
from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.graph import Place
from headrace.pipeline.load import Finding
from headrace.pipeline.plan import decisions, planned
from headrace.pipeline.plan.applied import Applied
from headrace.pipeline.plan.compare import Comparison, Verdict
from headrace.pipeline.plan.decisions import DecisionError, UnknownFlowError
from headrace.pipeline.plan.flow_print import PrintedTarget
from headrace.pipeline.plan.planned import PlannedFlow, ProjectPlan
from headrace.pipeline.run.lock import HeldError
from tests.support.processes.cli_kit import SCHEMAS, check

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.pipeline.project import Project
    from headrace.pipeline.run.storage import Storage

TABLE = PrintedTarget("revenue", "table", "delta")


def flow(
    name: str, verdict: Verdict, *differences: str, target: PrintedTarget = TABLE
) -> PlannedFlow:
    place = None if verdict is Verdict.GONE else Place("{directory}/transformations/orders.py", 31)
    return PlannedFlow(name, target, Comparison(verdict, differences), place)


FLOWS = (
    flow("orders", Verdict.SAME),
    flow("revenue", Verdict.MEANING, "window 5 minutes → 15 minutes", "function paid changed"),
    flow("pairs", Verdict.INCOMPATIBLE, "source returns is added"),
    flow("alerts", Verdict.MEANING, "filter x", target=PrintedTarget("alerts", "sink", "a-topic")),
    flow("more", Verdict.COMPATIBLE, "column x int: added to the table"),
    flow("customers", Verdict.NEW, "starts at the earliest records of customers"),
    flow("old", Verdict.GONE, "its checkpoint and old stay"),
)
LINES = """\
orders     same
revenue    CHANGED     window 5 minutes → 15 minutes; function paid changed  transformations/orders.py:31
           Spark would continue with this checkpoint and mix both meanings. Choose:
             --accept revenue       continue from here; earlier rows keep the old meaning
             --new-version revenue  compute revenue@1 from the earliest records; revenue stays as it is
pairs      REFUSED     source returns is added  transformations/orders.py:31
           This checkpoint or table cannot be continued. Choose:
             --new-version pairs  compute revenue@1 from the earliest records; revenue stays as it is
alerts     CHANGED     filter x  transformations/orders.py:31
           Spark would continue with this checkpoint and mix both meanings. Choose:
             --accept alerts       continue from here; earlier rows keep the old meaning
             --new-version alerts  send all records again, from the earliest, to topic a-topic
more       compatible  column x int: added to the table
customers  NEW         starts at the earliest records of customers
old        GONE        its checkpoint and old stay
3 to decide, 1 new, 2 to note; nothing was started
"""  # noqa: E501 - as printed


class Shop:
    """A project whose plan a test sets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.flows: tuple[PlannedFlow, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self.error: Exception | None = None
        (directory / "pipeline.toml").write_text('name = "shop"\n')

    def plan(self, project: Project, storage: Storage) -> ProjectPlan:
        assert storage.root == self.directory / "data"
        if self.error is not None:
            raise self.error
        placed = tuple(
            each
            if each.place is None
            else PlannedFlow(
                each.name,
                each.target,
                each.comparison,
                Place(each.place.file.format(directory=project.directory), each.place.line),
            )
            for each in self.flows
        )
        return ProjectPlan(project.name, placed, Applied(), "1", findings=self.findings)

    def run(self, *arguments: str) -> int:
        return command(["pipeline", "plan", str(self.directory), *arguments])


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop(tmp_path)
    monkeypatch.setattr(planned, "plan_of", shop.plan)
    return shop


def test_a_plan_has_a_line_for_each_flow_and_its_choices(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.flows = FLOWS
    assert shop.run() == 10
    assert capsys.readouterr().out == LINES


def test_a_plan_without_a_difference_is_exit_code_0(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.flows = FLOWS[:1]
    assert shop.run() == 0
    assert capsys.readouterr().out == "orders  same\n"


GOES_ON = "nothing to decide, the next run goes on: "


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "1 to decide"),
        (2, "1 to decide"),
        (3, "1 to decide"),
        (4, f"{GOES_ON}1 to note"),
        (5, f"{GOES_ON}1 new"),
        (6, f"{GOES_ON}1 to note"),
    ],
)
def test_each_other_verdict_is_exit_code_10(
    shop: Shop, capsys: pytest.CaptureFixture[str], number: int, words: str
) -> None:
    shop.flows = (FLOWS[0], FLOWS[number])
    assert shop.run() == 10
    assert capsys.readouterr().out.endswith(f"\n{words}; nothing was started\n")


def test_json_has_each_flow_with_its_verdict(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.flows = FLOWS
    assert shop.run("--json") == 10
    found = json.loads(capsys.readouterr().out)
    check(json.loads((SCHEMAS / "pipeline-plan.json").read_text()), found)
    assert found["pipeline"] == "shop"
    assert found["differing"] == 6
    assert [each["verdict"] for each in found["flows"]] == [
        each.comparison.verdict.value for each in FLOWS
    ]
    assert found["flows"][1] == {
        "flow": "revenue",
        "target": "revenue",
        "verdict": "meaning changes",
        "differences": ["window 5 minutes → 15 minutes", "function paid changed"],
        "file": f"{shop.directory}/transformations/orders.py",
        "line": 31,
        "choices": ["accept", "new-version"],
        "begin_records": None,
    }
    assert found["flows"][-1]["file"] is None


def test_errors_of_the_project_are_exit_code_2(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.findings = (Finding("orders: wrong", Place("/shop/orders.py", 7)),)
    assert shop.run() == 2
    assert "/shop/orders.py:7: orders: wrong" in capsys.readouterr().err


def test_damaged_definitions_are_exit_code_2(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.error = DeclarationError("applied.json is damaged: delete it")
    assert shop.run() == 2
    assert "applied.json is damaged" in capsys.readouterr().err


def test_a_decision_is_made_and_named(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def accept(project: Project, storage: Storage, flow: str) -> PlannedFlow:
        made.append(("accept", flow))
        return FLOWS[1]

    def new_version(project: Project, storage: Storage, flow: str) -> tuple[str, ...]:
        made.append(("new-version", flow))
        return ("revenue", "more")

    monkeypatch.setattr(decisions, "accept", accept)
    monkeypatch.setattr(decisions, "new_version", new_version)
    assert shop.run("--accept", "revenue") == 0
    assert "revenue: accepted: window 5 minutes → 15 minutes" in capsys.readouterr().out
    assert shop.run("--new-version", "more") == 0
    assert "revenue, more: the next run begins at the earliest" in capsys.readouterr().out
    assert made == [("accept", "revenue"), ("new-version", "more")]


@pytest.mark.parametrize(
    ("error", "code"),
    [(DecisionError("no"), 2), (UnknownFlowError("no"), 4), (HeldError("no"), 13)],
)
def test_a_refused_decision_has_its_exit_code(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(decisions, "accept", refuse)
    monkeypatch.setattr(decisions, "new_version", refuse)
    assert shop.run("--accept", "revenue") == code
    assert shop.run("--new-version", "revenue") == code


@pytest.mark.parametrize(
    "options", [["--accept", "a", "--new-version", "a"], ["--accept", "a", "--json"]]
)
def test_options_that_exclude_each_other_are_usage_errors(shop: Shop, options: list[str]) -> None:
    assert shop.run(*options) == 2


def test_a_directory_without_a_project_is_exit_code_4(tmp_path: Path) -> None:
    assert command(["pipeline", "plan", str(tmp_path)]) == 4
