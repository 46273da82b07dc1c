"""The container engine of this machine: podman, or docker where its daemon answers."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

COMMAND_SECONDS_MAX = 900.0
ENGINES = ("podman", "docker")
NESTED_FLAGS = ("--cgroups=disabled", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000")
"""What lets podman run a container where it may neither make cgroups nor raise limits."""


class EngineError(Exception):
    """A command of the engine failed; its text is what it said last."""


class Engine(NamedTuple):
    """One engine."""

    name: str
    run_flags: Sequence[str] = ()

    def ask(self, *words: str, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command of the engine for what it prints. EngineError unless it `may_fail`."""
        # Builds need no more than a directory as their root: also where namespaces are refused.
        environ = os.environ | {"BUILDAH_ISOLATION": "chroot"}
        done = subprocess.run(
            [self.name, *words], env=environ, capture_output=True, text=True,
            timeout=COMMAND_SECONDS_MAX, check=False,
        )  # fmt: skip
        if done.returncode and not may_fail:
            said = (done.stderr or done.stdout).strip()[-2000:]
            raise EngineError(f"{self.name} {' '.join(words)}: {said}")
        return done

    def run(self, *words: str, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a container that has no network but its own loopback."""
        return self.ask("run", "--network=none", *self.run_flags, *words, may_fail=may_fail)


def find(*, nested: bool) -> Engine | None:
    """Return an engine that answers, None where there is none."""
    for name in ENGINES:
        if shutil.which(name) is not None:
            engine = Engine(name, NESTED_FLAGS if nested else ())
            if engine.ask("info", may_fail=True).returncode == 0:
                return engine
    return None


def go_on_nested(words: Sequence[str]) -> NoReturn:
    """Begin this program anew where podman finds cgroups that it can leave alone."""
    cgroups = "umount -R /sys/fs/cgroup 2>/dev/null; mount -t cgroup2 none /sys/fs/cgroup"
    within = ["unshare", "--mount", "sh", "-c", f'{cgroups}; exec "$@"', "sh"]
    sys.stdout.flush()
    os.execvp(within[0], [*within, sys.executable, "-m", "tests.container", *words])


def imported(engine: Engine, root: Path, image: str) -> None:
    """Make an image of a root's files. EngineError."""
    archive = root.with_suffix(".tar")
    tar = ["tar", "-C", str(root), "--exclude=./proc/*", "--exclude=./dev/*", "-cf", str(archive)]
    try:
        subprocess.run([*tar, "."], check=True)
        engine.ask("import", str(archive), image)
    finally:
        archive.unlink(missing_ok=True)
