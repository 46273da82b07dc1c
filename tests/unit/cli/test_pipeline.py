"""`headrace pipeline validate`: output and exit codes, with a stand-in for Spark's checks."""

import json
from pathlib import Path

import pytest

from headrace.cli.main import run as command
from headrace.pipeline import checked
from headrace.pipeline.checked import Checked
from headrace.pipeline.graph import Place
from headrace.pipeline.load import Finding
from headrace.pipeline.project import Project
from tests.support.processes.cli_kit import SCHEMAS, check

COUNTS = {"tables": 2, "views": 0, "sinks": 1, "topics": 1, "checks": 5}
ERROR = Finding("orders: division by zero", Place("/shop/orders.py", 7))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipeline.toml").write_text('name = "shop"\n[profile.bad]\ncluster = "x"\n')

    def check(project: Project) -> Checked:
        return Checked(project.name, COUNTS, (ERROR,) if project.profile == "bad" else ())

    monkeypatch.setattr(checked, "check_project", check)
    return tmp_path


def test_a_sound_project_is_one_line(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["pipeline", "validate", str(shop)]) == 0
    assert capsys.readouterr().out == "shop: 2 tables, 1 sink, 1 topic, 5 checks: sound\n"


def test_errors_are_listed_with_their_lines(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["pipeline", "validate", str(shop), "-p", "bad"]) == 2
    assert capsys.readouterr().out.splitlines() == [
        "shop: 2 tables, 1 sink, 1 topic, 5 checks: 1 error",
        "  /shop/orders.py:7: orders: division by zero",
    ]


@pytest.mark.parametrize(("profile", "errors"), [([], 0), (["--project-profile", "bad"], 1)])
def test_json_has_counts_and_errors(
    shop: Path, capsys: pytest.CaptureFixture[str], profile: list[str], errors: int
) -> None:
    code = command(["pipeline", "validate", str(shop), "--json", *profile])
    assert code == (2 if errors else 0)
    found = json.loads(capsys.readouterr().out)
    check(json.loads((SCHEMAS / "pipeline-validate.json").read_text()), found)
    place = {"text": ERROR.text, "file": "/shop/orders.py", "line": 7}
    assert found == {"pipeline": "shop", **COUNTS, "errors": [place] * errors}


def test_a_directory_without_a_project_is_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["pipeline", "validate", str(tmp_path)]) == 4
    assert "there is no pipeline.toml in" in capsys.readouterr().err


def test_an_unknown_profile_is_a_usage_error(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["pipeline", "validate", str(shop), "-p", "none"]) == 2
    assert "there is no profile none; there are: bad" in capsys.readouterr().err
