"""tests/unit is held to one process by its conftest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOKS = "from tests.unit.conftest import pytest_runtest_protocol, pytest_runtest_teardown\n"
BEGINNING = """
import asyncio, contextlib, multiprocessing, os, subprocess, sys
import pytest
from headrace.testing import BrokerThread
"""
STARTS = {
    "subprocess": "subprocess.run([sys.executable, '-c', ''], check=True)",
    "asyncio": "asyncio.run(asyncio.create_subprocess_exec('true'))",
    "system": "os.system('true')",
    "fork": "os.waitpid(os.fork() or os._exit(0), 0)",
    "posix_spawn": "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)",
    "not_there": "with contextlib.suppress(OSError): subprocess.run(['/not/there'])",
    "multiprocessing": (
        "made = multiprocessing.get_context('spawn').Process(target=print)\n"
        "    made.start()\n    made.join()"
    ),
    "broker": "with BrokerThread(memory=True): pass",
}
FIXTURE = """
@pytest.fixture(scope="module")
def kept():
    with BrokerThread(memory=True):
        yield


def test_fixture(kept): pass
def test_nothing(): pass
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a run of tests that each start something in another way."""
    place = tmp_path_factory.mktemp("guarded")
    (place / "pytest.ini").write_text("[pytest]\n")
    (place / "conftest.py").write_text(HOOKS)
    tests = "".join(f"\n\ndef test_{name}():\n    {code}\n" for name, code in STARTS.items())
    (place / "test_it.py").write_text(BEGINNING + tests + FIXTURE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:randomly", "-p", "no:xdist"],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("name", [*STARTS, "fixture"])
def test_a_unit_test_that_starts_a_process_or_a_broker_fails(said: str, name: str) -> None:
    assert f"ERROR test_it.py::test_{name}" in said


def test_a_unit_test_that_starts_neither_passes(said: str) -> None:
    assert "PASSED test_it.py::test_nothing" in said
    assert "ERROR test_it.py::test_nothing" not in said
