"""Targets of the Makefile: which tests belong to every change, and which target runs the others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.examples import QUICK, examples
from tests.support.tiers import KEPT, LONG, SLOW, is_long, is_slow

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()


def recipe(target: str) -> str:
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found, target
    return found[1]


@pytest.mark.parametrize("beginning", [*SLOW, *KEPT])
def test_each_path_of_a_slow_or_kept_test_is_there(beginning: str) -> None:
    path, _, name = beginning.partition("::")
    assert (ROOT / path).exists()
    assert f"def {name}" in (ROOT / path).read_text() if name else True


@pytest.mark.parametrize("kept", KEPT)
def test_a_kept_test_lies_in_a_slow_tree(kept: str) -> None:
    assert kept.startswith(tuple(SLOW))
    assert not is_slow(kept)


@pytest.mark.parametrize(("path", "target"), SLOW.items())
def test_the_target_of_a_slow_tree_runs_it(path: str, target: str) -> None:
    tree = path if path.endswith("/") else f"{Path(path).parent}/"
    assert re.search(rf"{path}|{tree.rstrip('/')}\b(?!/)|tests\.{tree.split('/')[1]}\b",
                     recipe(target))  # fmt: skip
    assert "not slow" not in recipe(target)


@pytest.mark.parametrize("target", ["check", "test"])
def test_slow_tests_are_left_out_of_every_changes_targets(target: str) -> None:
    assert '-m "not slow' in recipe(target)


def test_long_tests_are_left_out_of_check_alone() -> None:
    assert '-m "not slow and not long"' in recipe("check")
    assert "not long" not in MAKEFILE.replace(recipe("check"), "")


def test_check_alone_tries_fewer_examples() -> None:
    assert f"{QUICK}=1 " in recipe("check")
    assert QUICK not in MAKEFILE.replace(recipe("check"), "")


@pytest.mark.parametrize(("count", "fewer"), [(3, 3), (5, 5), (15, 5), (20, 6), (150, 50)])
def test_fewer_examples_are_a_third_and_at_least_five(
    count: int, fewer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(QUICK, raising=False)
    assert examples(count) == count
    monkeypatch.setenv(QUICK, "1")
    assert examples(count) == fewer


@pytest.mark.parametrize("beginning", LONG)
def test_each_path_of_a_long_test_is_there(beginning: str) -> None:
    path, _, name = beginning.partition("::")
    assert name.partition("[")[0] in (ROOT / path).read_text()
    assert path.startswith(("tests/unit/", "tests/property/"))
    assert is_long(beginning)
    assert not is_slow(beginning) or beginning in SLOW


def test_a_release_runs_the_target_of_each_slow_tree() -> None:
    (targets,) = re.findall(r"^RELEASE := (.*)$", MAKEFILE, re.MULTILINE)
    assert set(SLOW.values()) <= set(targets.split())
    assert "$(RELEASE)" in recipe("test-all")


def test_tests_of_slow_trees_are_marked_when_they_are_collected() -> None:
    files = ["tests/chaos/test_history.py", "tests/soak/test_soak.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not slow", *files],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert files[0] in done.stdout
    assert files[1] not in done.stdout
