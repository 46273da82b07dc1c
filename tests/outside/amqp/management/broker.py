"""Brokers that serve the management API, as their first start leaves them."""

import time
from http import HTTPStatus
from pathlib import Path

from tests.outside.amqp.management.commands import Done
from tests.outside.amqp.management.replay import over_http
from tests.outside.amqp.ours import Headrace, asked
from tests.outside.amqp.peer import RabbitMQ
from tests.support.processes.process import free_port

START_SECONDS_MAX = 60.0
GUEST = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


class ManagedRabbitMQ(RabbitMQ):
    """A node with the management plugin, on a free port of the loopback, with the user guest."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        port = free_port()
        self.settings["management.tcp.ip"] = self.host.address
        self.settings["management.tcp.port"] = port
        # The recorded node had the exchange of logs, and a file of them.
        self.settings["log.exchange"] = "true"
        self.settings["log.file"] = "node.log"
        self.base = f"http://{self.host.address}:{port}"

    def write_files(self, place: Path) -> None:
        super().write_files(place)
        (place / "enabled_plugins").write_text("[rabbitmq_management].\n")
        settings = place / "rabbitmq.conf"
        lines = settings.read_text().splitlines(keepends=True)
        settings.write_text("".join(it for it in lines if not it.startswith("definitions.")))

    def until_answers(self) -> None:
        super().until_answers()
        ask = over_http(self.base)
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            # The overview is status 500 until the statistics database has started.
            if ask("GET", "/api/overview", GUEST, None).status == HTTPStatus.OK:
                return
            time.sleep(0.1)
        raise SystemExit(f"rabbitmq: no management API at {self.base}")

    def run(self, tool: str, *words: str) -> Done:
        """Run a command. subprocess.TimeoutExpired: it does not end."""
        done = self.run_tool(tool, *words)
        return Done(done.returncode, done.stdout, done.stderr)


class ManagedHeadrace(Headrace):
    """Our broker with a management listener and the user guest."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        address = f"127.0.0.1:{free_port()}"
        self.base = f"http://{address}"
        delay = "connection.failed.authentication.delay"
        # Users that a request should have made are refused: the replay does not wait for it.
        self.arguments = (
            "--management", address, "--set", f"{delay}.ms=0", "--set", f"{delay}.max.ms=0",
        )  # fmt: skip

    def furnish(self) -> None:
        """Create the vhosts that requests should create, until they are built (step A5)."""
        for vhost in ("gold", "gold/slash", "gold3"):
            asked(self.bootstrap, "vhost", "create", vhost)
            asked(self.bootstrap, "permission", "set", "guest", *[".*"] * 3, "--vhost", vhost)
