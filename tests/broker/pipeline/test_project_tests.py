"""`headrace pipeline test`: exit codes and JSON, on projects whose tests need no Spark."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING

import pytest

from headrace.cli.main import run as command
from tests.support.processes.cli_kit import SCHEMAS, check

if TYPE_CHECKING:
    from pathlib import Path

PASSES = "def test_sound():\n    pass\n"
FAILS = "def test_wrong():\n    assert 1 == 2\n"
SKIPS = "import pytest\n@pytest.mark.skip(reason='later')\ndef test_skipped():\n    pass\n"
HELPER = "from shop_rules import rule\ndef test_rule():\n    assert rule() == 3\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text('name = "shop"\n')
    (tmp_path / "tests").mkdir()
    (tmp_path / "shop_rules.py").write_text("def rule():\n    return 3\n")
    return tmp_path


def run(shop: Path, text: str, *options: str) -> int:
    (shop / "tests" / "test_shop.py").write_text(text)
    return command(["pipeline", "test", str(shop), *options])


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (PASSES, [], 0),
        (HELPER, [], 0),
        (PASSES + FAILS, [], 11),
        (PASSES + FAILS, ["-k", "sound"], 0),
        (PASSES, ["-k", "nothing"], 2),
        ("", [], 2),
        ("import nowhere_at_all\n", [], 2),
    ],
)
def test_exit_code_tells_how_the_tests_ended(
    shop: Path, text: str, options: list[str], code: int
) -> None:
    before = sorted(shop.rglob("*"))
    assert run(shop, text, *options) == code
    written = {shop / "tests" / "test_shop.py"}
    assert set(shop.rglob("*")) - written == set(before), "the project is not written to"


def test_a_missing_pytest_is_one_sentence_with_the_command_that_installs_it(
    shop: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def without_pytest(name: str) -> object:
        return None if name == "pytest" else find(name)

    monkeypatch.setattr(importlib.util, "find_spec", without_pytest)
    assert run(shop, PASSES) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("headrace: pytest is missing: ")
    assert "-m pip install 'pytest" in line


def test_json_has_each_test_with_its_outcome(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(shop, PASSES + FAILS + SKIPS, "--json") == 11
    found = json.loads(capfd.readouterr().out)
    check(json.loads((SCHEMAS / "pipeline-test.json").read_text()), found)
    assert (found["passed"], found["failed"], found["skipped"]) == (1, 1, 1)
    outcomes = {each["test"].rpartition(".")[2]: each["outcome"] for each in found["tests"]}
    assert outcomes == {"test_sound": "passed", "test_wrong": "failed", "test_skipped": "skipped"}
    messages = {each["test"].rpartition(".")[2]: each["message"] for each in found["tests"]}
    assert messages["test_sound"] is None
    assert "assert 1 == 2" in messages["test_wrong"]


def test_a_project_without_tests_is_exit_code_2(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "tests").rmdir()
    assert command(["pipeline", "test", str(shop)]) == 2
    assert "has no directory tests: write tests/test_shop.py" in capsys.readouterr().err


def test_a_directory_without_a_project_is_exit_code_4(tmp_path: Path) -> None:
    assert command(["pipeline", "test", str(tmp_path)]) == 4
