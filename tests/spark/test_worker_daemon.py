"""Spark's daemon of workers: silent where Spark has gone, and otherwise as pyspark's."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from weakref import ReferenceType, ref

import pytest
from pyspark.serializers import SpecialLengths
from pyspark.sql import SparkSession
from pyspark.util import handle_worker_exception

from headrace.spark.errors import OptionError
from headrace.spark.sessions import worker_daemon
from headrace.spark.sessions.python import worker_python
from headrace.spark.sessions.worker_daemon import in_one_sentence, settled, silent


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_worker_whose_spark_is_gone_ends_and_says_nothing(error: type[OSError]) -> None:
    assert silent(_raising(error))("socket", True) == 1


def test_any_other_failure_of_a_worker_is_told_as_before() -> None:
    assert silent(lambda *_: 3)("socket", True) == 3
    with pytest.raises(ValueError, match="told"):
        silent(_raising(ValueError))("socket", True)


def test_what_a_task_imports_is_searched_for_garbage_once_and_what_tasks_leave_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Knot:
        """In a cycle, which the garbage collector alone can free."""

        def __init__(self) -> None:
            self.self = self

    left: list[ReferenceType[Knot]] = []
    imported = "headrace_imported_by_a_task"

    def worker(*_: object) -> int:
        if not left:
            sys.modules[imported] = ModuleType(imported)
        left.append(ref(Knot()))
        return 5

    kept: list[Knot] = [Knot()]  # garbage later than it is set apart
    later = ref(kept[0])
    times: list[None] = []
    freeze = gc.freeze
    monkeypatch.setattr(gc, "freeze", lambda: times.append(freeze()))
    task = settled(worker)
    frozen_before = gc.get_freeze_count()
    gc.disable()
    try:
        assert task("socket", True) == 5
        assert gc.get_freeze_count() > frozen_before + 1000, "the modules"
        assert left[0]() is None, "garbage by now is not kept"
        assert task("socket", True) == 5
        assert len(times) == 1, "nothing was imported since"
        gc.collect()  # as pyspark's daemon does after each task
        assert left[1]() is None
        kept.clear()
        gc.collect()
        assert later() is not None, "it is not searched any more"
        sys.modules[f"{imported}_2"] = ModuleType(imported)
        assert task("socket", True) == 5
        assert later() is None, "all is searched where something was imported"
    finally:
        gc.enable()
        gc.unfreeze()
        sys.modules.pop(imported, None)
        sys.modules.pop(f"{imported}_2", None)


def _raising(error: type[Exception]) -> Callable[..., Any]:
    def worker(*_: object) -> int:
        raise error("told")

    return worker


def told(error: Exception, monkeypatch: pytest.MonkeyPatch, *hidden: str) -> str:
    """What Spark is told of an error."""
    for name in hidden:
        monkeypatch.setenv(name, "1")
    out = BytesIO()
    try:
        raise error
    except Exception as raised:  # noqa: BLE001
        in_one_sentence(handle_worker_exception)(raised, out)
    kind = int.from_bytes(out.getvalue()[:4], "big", signed=True)
    assert kind == SpecialLengths.PYTHON_EXCEPTION_THROWN
    return out.getvalue()[8:].decode()


def test_an_error_of_ours_is_told_in_its_own_words_and_a_programs_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    ours = told(OptionError("topic: give one"), monkeypatch)
    assert ours == "headrace.spark.errors.OptionError: topic: give one\n"
    theirs = told(ValueError("theirs"), monkeypatch)
    assert theirs.startswith("Traceback")
    assert theirs.endswith("ValueError: theirs\n")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
    assert told(ValueError("theirs"), monkeypatch, "SPARK_HIDE_TRACEBACK") == "ValueError: theirs\n"
    told(OptionError("topic"), monkeypatch)
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1", "as the session wants it"


def test_the_module_that_plans_streams_is_run_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "pyspark_planner.py").write_text(
        "import sys; from pyspark import util\n"
        "print(__name__, sys.argv[1:], util.handle_worker_exception.__module__, __file__)\n"
    )
    command = [sys.executable, "-P", worker_daemon.__file__, "pyspark_planner", "a", "b"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    file = tmp_path / "pyspark_planner.py"
    assert said.stdout == f"__main__ ['a', 'b'] __main__ {file}\n"


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (["-m", "pyspark.daemon", "pyspark.worker"], True),
        (["-m", "pyspark.sql.streaming.python_streaming_source_runner"], True),
        (["-m", "pyspark.worker"], False),
        (["-c", "print('run')"], False),
    ],
)
def test_sparks_python_runs_those_that_tell_of_errors_by_it(
    words: list[str], ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        "headrace.spark.sessions.python.sys", SimpleNamespace(executable=str(python))
    )
    said = subprocess.run([worker_python(), *words], capture_output=True, text=True, check=True)
    run = ["-P", worker_daemon.__file__, *words[1:]] if ours else words
    assert said.stdout.split() == " ".join(run).split()


def test_workers_are_forked_by_it_and_find_the_modules_of_the_programs_directory(
    spark: SparkSession,
) -> None:
    ours = Path(worker_daemon.__file__)

    def found(_: object) -> tuple[str, list[str]]:
        return str(sys.modules["__main__"].__file__), sys.path

    main, path = spark.sparkContext.parallelize([0], 1).map(found).first()
    assert main == str(ours)
    assert os.getcwd() in path
    assert str(ours.parent) not in path, "its neighbours would hide modules of the same names"


def test_it_imports_no_more_than_pyspark_before_workers_are_forked() -> None:
    script = (
        f"import runpy, sys; runpy.run_path({worker_daemon.__file__!r}); import pyspark.daemon;"
        "print([name for name in sys.modules if name.startswith(('headrace', 'pyarrow'))])"
    )
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
