"""Our broker, of this tree, with doors for AMQP and for Kafka's protocol."""

import subprocess
import sys
import time
from pathlib import Path

from tests.outside.amqp.address import Address, answers
from tests.outside.amqp.peer import DEFINITIONS
from tests.support.processes.process import StartsAndStops, free_port, wait_or_kill

START_SECONDS_MAX = 30.0


class Headrace(StartsAndStops):
    """`headrace serve` on free ports of the loopback."""

    name = "ours"

    def __init__(self, place: Path) -> None:
        self.place = place
        self.address = Address(port=free_port())
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self.arguments: tuple[str, ...] = ()
        """More arguments of the command."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start; returns when a handshake is answered. SystemExit with what it said."""
        listeners = f"AMQP://127.0.0.1:{self.address.port},PLAINTEXT://{self.bootstrap}"
        command = [sys.executable, "-m", "headrace.cli.main", "serve", "--listeners", listeners]
        command += ["--log-dir", str(self.place / "log"), "--set", "amqp.guest=true"]
        command += self.arguments
        output = self.place / "output.log"
        with output.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.place)
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            if answers(self.address):
                try:
                    self.furnish()
                except SystemExit:
                    self.stop()
                    raise
                return
            time.sleep(0.05)
        self.stop()
        raise SystemExit(f"headrace did not start:\n{output.read_text()[-3000:]}")

    def furnish(self) -> None:
        """Create what scenarios use. SystemExit."""
        furnish(self.bootstrap)

    def stop(self) -> None:
        """SIGTERM, and wait for its end."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            wait_or_kill(process, 30)


def furnish(bootstrap: str) -> None:
    """Create the vhosts, users and permissions that scenarios use (`peer`). SystemExit."""
    for vhost in DEFINITIONS["vhosts"]:
        if vhost["name"] != "/":
            asked(bootstrap, "vhost", "create", vhost["name"])
    for user in DEFINITIONS["users"]:
        if user["name"] != "guest":
            password = ("--password-file", "-")
            asked(bootstrap, "user", "create", user["name"], *password, given=user["password"])
    for one in DEFINITIONS["permissions"]:
        expressions = (one["configure"], one["write"], one["read"])
        words = ("permission", "set", one["user"], *expressions, "--vhost", one["vhost"])
        asked(bootstrap, *words)


def asked(bootstrap: str, *words: str, given: str = "") -> None:
    """Run a command of `headrace amqp`; `given` is its input. SystemExit."""
    command = [sys.executable, "-m", "headrace.cli.main", "amqp", *words, "-b", bootstrap]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"headrace amqp {' '.join(words)}: {done.stderr}")
