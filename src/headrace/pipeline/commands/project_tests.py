"""`headrace pipeline test`: run a project's tests, which need no broker."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

from cyclopts import Parameter

from headrace.pipeline.commands.projects import project_in
from headrace.terminal.broker_options import Json
from headrace.terminal.failure import EXIT_USAGE, CommandError, check_installed
from headrace.terminal.output import print_json

TESTS = "tests"


def test(
    directory: Path = Path(),  # noqa: PT028 - a command, no test
    *,
    only: Annotated[
        str | None, Parameter(("--only", "-k"), help="Run tests whose names contain this.")
    ] = None,  # noqa: PT028
    json: Json = False,  # noqa: PT028
) -> int:
    """Run a project's tests with pytest; the fixture `pipeline` gives records to its flows.

    Tests are in the project's directory tests. They need Spark and no broker, and write nothing to
    the project or its storage. For example: headrace pipeline test shop; headrace pipeline test
    shop -k late

    Exit codes: 0 all tests passed, 2 there is no test or pytest cannot run, 4 no pipeline, 11 a
    test failed.

    Parameters
    ----------
    directory
        The project's directory, which has pipeline.toml.
    """
    from headrace.pipeline.exit_codes import CHECK_FAILED

    check_installed("pyspark", "pyarrow")
    check_installed("pytest", code=EXIT_USAGE)
    project = project_in(directory, None)
    if not (project.directory / TESTS).is_dir():
        raise CommandError(
            f"{project.directory} has no directory {TESTS}: write {TESTS}/test_{project.name}.py "
            "with a test that has the argument pipeline",
            EXIT_USAGE,
        )
    code, report = _pytest(project.directory, only, quiet=json)
    if json:
        print_json({"pipeline": project.name, **_summary(report)})
    match code:
        case 0:
            return 0
        case 1:
            return CHECK_FAILED
        case 5:
            named = f" whose name contains {only}" if only else ""
            raise CommandError(f"{project.directory / TESTS} has no test{named}", EXIT_USAGE)
        case _:  # 2 to 4: a file that cannot be imported, wrong options
            raise CommandError(f"the tests did not run: pytest's exit code is {code}", EXIT_USAGE)


def _pytest(directory: Path, only: str | None, *, quiet: bool) -> tuple[int, ElementTree.Element]:
    """Run pytest; return its exit code and its report."""
    path = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{directory}{os.pathsep}{path}" if path else str(directory),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with tempfile.TemporaryDirectory(prefix="headrace-test-") as place:
        report = Path(place) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", TESTS]
        command += ["--rootdir", str(directory)]
        command += ["--junitxml", str(report)] if quiet else []
        command += ["-k", only] if only else []
        ended = subprocess.run(  # noqa: S603 - this Python
            command,
            cwd=directory,
            env=environment,
            check=False,
            stdout=subprocess.DEVNULL if quiet else None,
        )
        try:
            return ended.returncode, ElementTree.parse(report).getroot()  # noqa: S314 - pytest wrote it
        except (FileNotFoundError, ElementTree.ParseError):
            return ended.returncode, ElementTree.Element("testsuites")


def _summary(report: ElementTree.Element) -> Mapping[str, Any]:
    tests = [_of_test(case) for case in report.iter("testcase")]
    counts = {
        outcome: sum(each["outcome"] == outcome for each in tests)
        for outcome in ("passed", "failed", "skipped")
    }
    return {**counts, "tests": tests}


def _of_test(case: ElementTree.Element) -> Mapping[str, Any]:
    outcome, message = "passed", None
    for child in case:
        if child.tag in ("failure", "error", "skipped"):
            outcome = "skipped" if child.tag == "skipped" else "failed"
            message = child.get("message")
    return {
        "test": f"{case.get('classname')}.{case.get('name')}",
        "outcome": outcome,
        "seconds": float(case.get("time", "0")),
        "message": message,
    }
