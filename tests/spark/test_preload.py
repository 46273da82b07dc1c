"""What Spark forks for each batch of a sink is forked where its imports are done."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.spark.preload import WORKERS
from headrace.spark.python import worker_python

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="looks at what a process has mapped"
)


@contextmanager
def daemon(worker: str, **environment: str) -> Iterator[int]:
    """The pid of a daemon that Spark's way of starting one has started, and that listens."""
    process = subprocess.Popen(
        [worker_python(), "-m", "pyspark.daemon", worker],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
        env=os.environ | {"PYTHON_WORKER_FACTORY_SECRET": "secret", **environment},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert int.from_bytes(process.stdout.read(4), "big") > 0  # the port
        yield process.pid
    finally:
        process.communicate(timeout=60)  # the end of its input ends it


def has_arrow(pid: int) -> bool:
    return "libarrow" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("worker", WORKERS)
def test_processes_of_a_sinks_driver_are_forked_with_imports_done(worker: str) -> None:
    with daemon(worker) as pid:
        assert has_arrow(pid)


def test_other_daemons_are_sparks_own() -> None:
    with daemon("pyspark.worker") as pid:
        assert not has_arrow(pid)
        assert b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_daemon_that_does_not_find_this_package_is_sparks_own(tmp_path: Path) -> None:
    hidden = tmp_path / "headrace"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    with daemon(WORKERS[0], PYTHONPATH=path) as pid:
        assert not has_arrow(pid)
