"""The projects of examples/: each is sound, and its own tests pass, as its reader runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.long import QUICK_JAVA

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(file.parent for file in (ROOT / "examples").rglob("pipeline.toml"))
pytestmark = pytest.mark.slow


def pipeline(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run `headrace pipeline` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "headrace", "pipeline", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env=os.environ | QUICK_JAVA,
    )


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.parent.name)
def test_an_example_is_sound(project: Path) -> None:
    ended = pipeline("validate", str(project))
    assert (ended.returncode, ended.stdout[-8:]) == (0, ": sound\n"), ended


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.parent.name)
def test_the_own_tests_of_an_example_pass(project: Path) -> None:
    ended = pipeline("test", str(project))
    assert ended.returncode == 0, ended.stdout + ended.stderr
