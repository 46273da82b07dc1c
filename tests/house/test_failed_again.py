"""CI's second look passes only what passes alone, names it, and never looks at many."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "failed_again.py"
FLAKY = """
from pathlib import Path
def test_it():
    seen = Path("seen")
    seen.write_text(seen.read_text() + "x" if seen.exists() else "x")
    assert len(seen.read_text()) > 1
"""


def run_in(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    # Plugins would take most of each run's time.
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120
    )


def looked_twice(directory: Path, tests: str) -> tuple[int, subprocess.CompletedProcess[str]]:
    """The first run's status, and what the second look says."""
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "test_it.py").write_text(tests)
    first = run_in(directory, "-m", "pytest", "-q")
    return first.returncode, run_in(directory, str(SCRIPT))


def test_a_test_that_passes_alone_is_named_and_passes(tmp_path: Path) -> None:
    first, second = looked_twice(tmp_path, FLAKY)
    assert first == 1
    assert second.returncode == 0
    assert "FLAKY: test_it.py::test_it" in second.stdout


def test_a_test_that_fails_again_fails(tmp_path: Path) -> None:
    _, second = looked_twice(tmp_path, "def test_it(): assert False")
    assert second.returncode == 1
    assert "FLAKY" not in second.stdout


@pytest.mark.parametrize(("count", "asked"), [(3, True), (4, False)])
def test_more_than_three_are_not_asked_again(tmp_path: Path, count: int, asked: bool) -> None:
    each = (FLAKY.replace("_it", f"_{at}").replace("seen", f"seen_{at}") for at in range(count))
    tests = "\n".join(each)
    first, second = looked_twice(tmp_path, tests)
    assert first == 1
    assert second.returncode == (0 if asked else 1)
    assert second.stdout.count("FLAKY: ") == (count if asked else 0)


def test_a_run_that_ended_before_any_test_is_not_looked_at(tmp_path: Path) -> None:
    done = run_in(tmp_path, str(SCRIPT))
    assert done.returncode == 1
    assert done.stdout.startswith("0 failed")
