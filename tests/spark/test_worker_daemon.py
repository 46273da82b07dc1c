"""Spark's daemon of workers: silent where Spark has gone, and otherwise as pyspark's."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.spark import worker_daemon
from headrace.spark.worker_daemon import silent


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_worker_whose_spark_is_gone_ends_and_says_nothing(error: type[OSError]) -> None:
    assert silent(_raising(error))("socket", True) == 1


def test_any_other_failure_of_a_worker_is_told_as_before() -> None:
    assert silent(lambda *_: 3)("socket", True) == 3
    with pytest.raises(ValueError, match="told"):
        silent(_raising(ValueError))("socket", True)


def _raising(error: type[Exception]) -> Callable[..., Any]:
    def worker(*_: object) -> int:
        raise error("told")

    return worker


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
