"""The container recipe, built and run: `make container-test`, or `python -m tests.container`.

The image is built from deploy/container/Containerfile and a copy of this tree, on its own base
where that can be pulled, else on a bare Debian 13 (debootstrap, root, a network). Then a broker
runs in it as whoever operates one would have it: a record is written, the container is stopped,
started and killed, and the record is there each time. Needs podman, or docker with a daemon:
status 2 without. Status 1 where something does not hold.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.container.engine import Engine, EngineError, find, go_on_nested, imported
from tests.docs.page import copy_tree
from tests.docs.processes import ROOT
from tests.support.processes.debian_root import copy_bare, make_bare

RECIPE = "deploy/container/Containerfile"
IMAGE, BASE, NAME, VOLUME = (
    "headrace-test", "headrace-test-base", "headrace-test", "headrace-test-data",
)  # fmt: skip
PULL_SECONDS_MAX = "60"
STARTED = "Ctrl-C ends it."
START_SECONDS_MAX = 60.0
STOP_SECONDS = "60"
KILLED = 137


def _base(engine: Engine, bare: Path) -> str:
    """Return the base to build on: the recipe's own, else one made of a bare Debian."""
    recipe = (ROOT / RECIPE).read_text("utf-8")
    own = recipe.split("ARG BASE=")[1].split()[0]
    pulled = subprocess.run(
        ["timeout", PULL_SECONDS_MAX, engine.name, "pull", "-q", own],
        capture_output=True, check=False,
    )  # fmt: skip
    if pulled.returncode == 0:
        return own
    if os.geteuid() != 0:
        raise EngineError(f"{own} cannot be pulled, and a base can be made by root only")
    print(f"container-test: {own} cannot be pulled: on a bare Debian 13", flush=True)
    make_bare(bare, "container-test")
    with tempfile.TemporaryDirectory(prefix="headrace-base-") as place:
        root = Path(place) / "root"
        copy_bare(bare, root)
        install = "apt-get update -q && apt-get install -q -y --no-install-recommends python3-venv"
        subprocess.run(
            ["chroot", str(root), "sh", "-c", install],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        imported(engine, root, BASE)
    return BASE


def _build(engine: Engine, base: str) -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-tree-") as place:
        tree = Path(place) / "tree"
        tree.mkdir()
        copy_tree(tree)
        own = ["--format", "docker", "--layers=false"] * (engine.name == "podman")
        engine.ask(
            "build", *own, "-f", str(tree / RECIPE), "--build-arg", f"BASE={base}",
            "-t", IMAGE, str(tree),
        )  # fmt: skip


class Checks:
    """One container, from its start to its end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def _inside(self, script: str) -> str:
        return self._engine.ask("exec", NAME, "sh", "-c", script).stdout

    def _inspected(self, what: str) -> str:
        return self._engine.ask("inspect", "--format", "{{" + what + "}}", NAME).stdout.strip()

    def _await_start(self, times: int) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            logs = self._engine.ask("logs", NAME)
            if logs.stdout.count(STARTED) >= times:
                return
            time.sleep(0.5)
        raise EngineError(f"the broker did not start:\n{logs.stdout}{logs.stderr}")

    def starts(self) -> None:
        """It listens, and its data are on the volume."""
        self._engine.run("-d", "--name", NAME, "-v", f"{VOLUME}:/var/lib/headrace", IMAGE)
        self._await_start(1)
        _hold(self._inside("ls data").split().count("meta.properties") == 1, "data on the volume")

    def is_not_root(self) -> None:
        """Its process and its files are a user's who may do nothing else."""
        _hold(self._inside("id -un; stat -c %U data").split() == ["headrace"] * 2, "not root")

    def keeps_records(self) -> None:
        """What is produced is consumed, by the command in the image."""
        self._inside("echo hello | headrace produce orders")
        self._consume()

    def _consume(self) -> None:
        read = self._inside("headrace consume orders --from-beginning -n 1")
        _hold(read == "hello\n", f"the record is read again, not {read!r}")

    def tells_its_health(self) -> None:
        """The image's health check holds with a broker, and fails without one."""
        _, *check = json.loads(self._inspected("json .Config.Healthcheck.Test"))
        self._engine.ask("exec", NAME, *check)
        alone = self._engine.run("--rm", "--entrypoint", check[0], IMAGE, *check[1:], may_fail=True)
        _hold(alone.returncode == 3, f"no broker is no health, not {alone.returncode}")

    def stops_cleanly(self) -> None:
        """SIGTERM ends it with status 0; the next start finds all that was written."""
        began = time.monotonic()
        self._engine.ask("stop", "-t", STOP_SECONDS, NAME)
        _hold(self._inspected(".State.ExitCode") == "0", "a stop is clean")
        _hold(time.monotonic() - began < float(STOP_SECONDS), "a stop does not wait for its end")
        self._engine.ask("start", NAME)
        self._await_start(2)
        self._consume()

    def outlives_kills(self) -> None:
        """After SIGKILL the same container starts with all that was acknowledged."""
        self._engine.ask("kill", "-s", "KILL", NAME)
        self._engine.ask("wait", NAME, may_fail=True)
        _hold(self._inspected(".State.ExitCode") == str(KILLED), "it was killed")
        self._engine.ask("start", NAME)
        self._await_start(3)
        self._consume()

    def clean(self) -> None:
        """Leave no container and no volume."""
        self._engine.ask("rm", "-f", NAME, may_fail=True)
        self._engine.ask("volume", "rm", VOLUME, may_fail=True)


def _hold(holds: bool, claim: str) -> None:
    if not holds:
        raise EngineError(f"does not hold: {claim}")


def main() -> int:
    """Build, run, and say what holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    bare = ROOT / "out" / "debian"
    parser.add_argument("--base", type=Path, default=bare, help="the bare system, made by need")
    parser.add_argument("--keep", action="store_true", help="keep the images")
    parser.add_argument("--nested", metavar="BASE", help="no cgroups or limits of its own; on BASE")
    arguments = parser.parse_args()
    engine = find(nested=arguments.nested is not None)
    if engine is None:
        has_docker = ", and no daemon answers docker" if shutil.which("docker") else ""
        print(f"container-test: there is no podman{has_docker}: apt-get install podman")
        return 2
    try:
        base = arguments.nested or _base(engine, arguments.base)
        alone = engine.run("--rm", base, "true", may_fail=True)
        if alone.returncode and not arguments.nested and engine.name == "podman":
            said = alone.stderr.strip()
            print(f"container-test: without cgroups and limits of its own, because: {said}")
            go_on_nested([*sys.argv[1:], "--nested", base])
        print(f"container-test: by {engine.name}, on {base}", flush=True)
        _build(engine, base)
        print("built", flush=True)
        _check(Checks(engine))
    except EngineError as error:
        print(f"container-test: {error}")
        return 1
    finally:
        if not arguments.keep:
            engine.ask("rmi", "-f", IMAGE, BASE, may_fail=True)
    print("container-test: all holds")
    return 0


def _check(checks: Checks) -> None:
    checks.clean()
    try:
        for claim in (
            checks.starts, checks.is_not_root, checks.keeps_records, checks.tells_its_health,
            checks.stops_cleanly, checks.outlives_kills,
        ):  # fmt: skip
            claim()
            print(claim.__name__.replace("_", " "), flush=True)
    finally:
        checks.clean()


if __name__ == "__main__":
    sys.exit(main())
