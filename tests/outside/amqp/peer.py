"""A RabbitMQ 4.0 or 4.3 on the loopback: Debian's package in a root of its own, made once.

The root is kept (`out/rabbitmq`, or what RABBITMQ_ROOT names; `out/rabbitmq-4.3`, or what
RABBITMQ_4_3_ROOT names); debootstrap and the package's download take minutes, once. A node runs in
namespaces of its own, so that nothing of it outlives the process that was started here. Needs root,
debootstrap and, the first time, a network.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.outside.amqp.address import Address, answers
from tests.support.processes.debian_root import SUITE, TESTING, copy_bare, make_bare
from tests.support.processes.process import (
    LOOPBACK,
    Host,
    StartsAndStops,
    free_port,
    wait_or_kill,
)

OUT = Path(__file__).parents[3] / "out"
START_SECONDS_MAX = 300.0
_LIBRARY = "usr/lib/rabbitmq/lib"
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
_INSTALL = "apt-get update -q && apt-get install -q -y --no-install-recommends rabbitmq-server"
_NOTHING_STARTS = "#!/bin/sh\nexit 101\n"
"""policy-rc.d: what a package's installation must not do."""
_ENTER = """
mount -t proc proc "$ROOT/proc" && mount --rbind /dev "$ROOT/dev" || exit 1
WHO="--reuid rabbitmq --regid rabbitmq --clear-groups"
exec chroot "$ROOT" setpriv $WHO --pdeathsig KILL sh -c '
epmd -address $ERL_EPMD_ADDRESS -port $ERL_EPMD_PORT -daemon
cd "$PLACE" && exec /usr/lib/rabbitmq/bin/rabbitmq-server'
"""
TOOL_SECONDS_MAX = 60.0
_TOOL = """
mount -t proc proc "$ROOT/proc" && mount --rbind /dev "$ROOT/dev" || exit 1
AS="--reuid rabbitmq --regid rabbitmq --clear-groups --pdeathsig KILL"
exec chroot "$ROOT" setpriv $AS "/usr/lib/rabbitmq/bin/$0" "$@"
"""
DEFINITIONS: dict[str, list[dict[str, Any]]] = {
    "users": [
        {"name": "guest", "password": "guest", "tags": ["administrator"]},
        {"name": "reader", "password": "secret", "tags": []},
    ],
    "vhosts": [{"name": "/"}, {"name": "other"}],
    "permissions": [
        {"user": "guest", "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}
        for vhost in ("/", "other")
    ]
    + [
        {
            "user": "reader",
            "vhost": "/",
            "configure": "^own\\..*",
            "write": "^own\\..*",
            "read": ".*",
        }
    ],
    "topic_permissions": [],
}
"""Who exists beside guest: `reader` may read all, write and change what is named `own.…`."""


class Release(NamedTuple):
    """Which RabbitMQ: that of a Debian."""

    suite: str
    variable: str
    """Of the environment: names its root where that is not the usual one."""
    root: Path
    bare: Path
    """The Debian it is put on, as debootstrap made it."""


RABBITMQ_4_0 = Release(SUITE, "RABBITMQ_ROOT", OUT / "rabbitmq", OUT / "debian")
RABBITMQ_4_3 = Release(TESTING, "RABBITMQ_4_3_ROOT", OUT / "rabbitmq-4.3", OUT / "debian-testing")


def prepared(root: Path | None = None, release: Release = RABBITMQ_4_0) -> Path:
    """Return the root RabbitMQ is installed in, made where it is missing. SystemExit."""
    root = root or Path(os.environ.get(release.variable, release.root))
    if os.geteuid() != 0:
        raise SystemExit("rabbitmq: a root of its own is made and entered: run it as root")
    if root.is_dir():
        return root
    print(f"rabbitmq: makes {root}, once: some minutes", file=sys.stderr, flush=True)
    make_bare(release.bare, "rabbitmq", release.suite)
    # Under another name until all is there: what is cut short is begun anew.
    part = root.with_name(root.name + ".part")
    copy_bare(release.bare, part)
    policy = part / "usr/sbin/policy-rc.d"
    policy.write_text(_NOTHING_STARTS)
    policy.chmod(0o755)
    (part / "etc/hosts").write_text("127.0.0.1 localhost\n")
    done = subprocess.run(
        ["unshare", "--mount", "chroot", str(part), "sh", "-c", _INSTALL],
        env=_ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"rabbitmq: apt-get failed: {(done.stderr or done.stdout)[-2000:]}")
    part.rename(root)
    return root


class RabbitMQ(StartsAndStops):
    """One node on free ports, its data gone when it stops; `settings` are lines of its file."""

    name = "rabbitmq"

    def __init__(self, root: Path, host: Host = LOOPBACK, **settings: object) -> None:
        self.root = root
        self.host = host
        self.address = Address(port=free_port(), host=host.address)
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.epmd_port, self._dist = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._place: Path | None = None
        (self.version,) = [
            path.name.rpartition("-")[2] for path in (root / _LIBRARY).glob("rabbitmq_server-*")
        ]

    @property
    def node(self) -> str:
        """Its name among Erlang's nodes."""
        return f"rabbit{self.address.port}@localhost"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes."""
        place = "/" + str(self.place.relative_to(self.root))
        interface = "{" + self.host.address.replace(".", ",") + "}"
        return {
            "PATH": _ENVIRONMENT["PATH"],
            "ROOT": str(self.root),
            "PLACE": place,
            "HOME": place,
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": self.host.address,
            "ERL_EPMD_PORT": str(self.epmd_port),
            # It would look for systemd's socket, and there is none.
            "RUNNING_UNDER_SYSTEMD": "1",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {interface}",
            "RABBITMQ_PLUGINS_DIR": f"/{_LIBRARY}/rabbitmq_server-{self.version}/plugins",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{place}/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": f"{place}/data",
            "RABBITMQ_LOG_BASE": f"{place}/log",
            "RABBITMQ_CONFIG_FILE": f"{place}/rabbitmq.conf",
        }

    @property
    def process_id(self) -> int:
        """Of the process that all others of it descend from."""
        assert self._process is not None
        return self._process.pid

    @property
    def place(self) -> Path:
        """Where its data and its output are."""
        assert self._place is not None
        return self._place

    @property
    def command(self) -> list[str]:
        """What starts it, in namespaces of its own."""
        # With us goes the first process, and with that all that was started and mounted. What
        # becomes another user forgets whose death ends it: the node says it once more.
        within = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork"]
        return [*self.host.within, *within, "--kill-child", "sh", "-c", _ENTER]

    def start(self) -> None:
        """Start; returns when a handshake is answered. SystemExit with what it said."""
        self.launch()
        self.until_answers()

    def launch(self) -> None:
        """Start its process; `until_answers` waits for it."""
        if self._place is None:
            self._place = self._made()
        with (self._place / "output.log").open("ab") as out:
            self._process = subprocess.Popen(
                self.command, env=self.environment, stdout=out, stderr=out
            )

    def until_answers(self) -> None:
        """Return when a handshake is answered. SystemExit with what it said."""
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            if answers(self.address):
                return
            time.sleep(0.1)
        said = self.output
        self.stop()
        raise SystemExit(f"rabbitmq did not start:\n{said[-3000:]}")

    def _made(self) -> Path:
        parent = self.root / "var/lib/rabbitmq"
        place = Path(tempfile.mkdtemp(prefix="node-", dir=parent))
        self.write_files(place)
        owner = parent.stat()
        for path in (place, *place.iterdir()):
            os.chown(path, owner.st_uid, owner.st_gid)
        return place

    def write_files(self, place: Path) -> None:
        """Write what it reads when it starts."""
        inside = "/" + str(place.relative_to(self.root))
        (place / "definitions.json").write_text(json.dumps(DEFINITIONS))
        (place / "enabled_plugins").write_text("[].\n")
        settings = {
            "listeners.tcp.default": f"{self.host.address}:{self.address.port}",
            "definitions.import_backend": "local_filesystem",
            "definitions.local.path": f"{inside}/definitions.json",
            "log.console": "true",
            "log.console.level": "warning",
        } | self.settings
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        (place / "rabbitmq.conf").write_text(lines)

    def kill(self) -> None:
        """End all its processes as a crash would; its data stays."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self.wait(30)

    def wait(self, seconds_max: float) -> None:
        """Wait for its end, where it was asked to end from outside; kill what takes longer."""
        process, self._process = self._process, None
        if process is not None:
            wait_or_kill(process, seconds_max)

    def stop(self) -> None:
        """End all its processes, and take its data away."""
        self.kill()
        place, self._place = self._place, None
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)

    def run_tool(self, tool: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `rabbitmqctl` or another tool at this node. subprocess.TimeoutExpired."""
        command = [*self.host.within, "unshare", "--mount", "sh", "-c", _TOOL, tool]
        return subprocess.run(
            [*command, *words], env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=TOOL_SECONDS_MAX,
        )  # fmt: skip

    @property
    def output(self) -> str:
        """What it said so far."""
        return (self.place / "output.log").read_text(errors="replace")


@contextmanager
def rabbitmq(root: Path | None = None) -> Iterator[RabbitMQ]:
    """Run one for a while."""
    with RabbitMQ(prepared(root)) as node:
        yield node


def main() -> int:
    """Run one until it is interrupted; prints its address."""
    with suppress(KeyboardInterrupt), rabbitmq() as node:
        print(node.address.url, flush=True)
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
