"""Every client over every way in that it knows: TLS, TLS with SASL, mutual TLS. Printed as a table.

Each client writes, reads in a group, and writes in a transaction; with a wrong password, and with a
truststore that does not know the broker's authority, it fails with its own error for that.

    python -m tests.outside.kafka_tools.secured_clients [--python] [client …]

`--python`: without the clients of other languages, which Maven, Go and npm fetch.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from headrace.testing import BrokerThread
from tests.outside.clients.secured import STORIES, VALUES, Security, Story
from tests.outside.kafka_tools import programs
from tests.support.security.certificates import OPEN, Authority
from tests.support.security.sasl_kit import PLAIN_USERS, add_scram_users

LISTENERS = {"SSL": "SSL", "MUTUAL": "SSL", "SASL": "SASL_SSL"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROGRAM_SECONDS_MAX = 180
WRONG_PASSWORD, UNKNOWN_AUTHORITY = "wrong-password", "unknown-authority"
REFUSALS = (WRONG_PASSWORD, UNKNOWN_AUTHORITY)


class Way(NamedTuple):
    """One column: a listener, and how a client comes to it."""

    title: str
    listener: str
    security: Security


class Program(NamedTuple):
    """A client of another language: its program, what it is asked, and whose words it reads."""

    prepare: Callable[[], list[str]]
    settings: Callable[[Security], Mapping[str, str]]
    scenarios: tuple[str, ...] = ("produce-consume-none", "group-classic", "transactions")


PROGRAMS = {
    "kafka-clients (Java)": Program(lambda: programs.java_program("Scenarios"), Security.java),
    "franz-go": Program(programs.go_program, Security.librdkafka,
                        ("produce-consume-none", "group-range", "transactions")),
    "KafkaJS": Program(programs.node_program, Security.librdkafka),
}  # fmt: skip


class Matrix:
    """One broker with its ways in, and what came of each client by each."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.authority = Authority(place)
        (place / "other").mkdir()
        self._stranger = Authority(place / "other", "stranger")
        self._mine = self.authority.sign("client", "/CN=client")
        self.broker = BrokerThread(
            {
                "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
                "listener.security.protocol.map": ",".join(
                    f"{name}:{protocol}" for name, protocol in LISTENERS.items()
                ),
                "ssl.keystore.location": str(self.authority.sign().both),
                "listener.name.mutual.ssl.truststore.location": str(self.authority.certificate),
                "listener.name.mutual.ssl.client.auth": "required",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.sasl.plain.sasl.jaas.config": PLAIN_USERS,
                "auto.create.topics.enable": "true",
                "transaction.state.log.num.partitions": "1",
                **OPEN,
            }
        )
        self.rows: dict[str, dict[str, str]] = {}

    def ways(self) -> list[Way]:
        """Return the columns that succeed."""
        trusted = self.authority.certificate
        return [
            Way("SSL", "SSL", Security(authority=trusted)),
            *(Way(f"SASL_SSL {name}", "SASL", Security(name, trusted)) for name in MECHANISMS),
            Way("mutual TLS", "MUTUAL", Security(None, trusted, self._mine)),
        ]

    def refusals(self) -> list[Way]:
        """Return the columns that end in the client's own error."""
        known = Security("SCRAM-SHA-512", self.authority.certificate)
        return [
            Way(WRONG_PASSWORD, "SASL", known.with_password("wrong")),
            Way(UNKNOWN_AUTHORITY, "SSL", Security(authority=self._stranger.certificate)),
        ]

    def bootstrap(self, way: Way) -> str:
        """Return where a way's listener is."""
        at = list(LISTENERS).index(way.listener)
        return f"127.0.0.1:{self.broker.server.listeners[at].port}"

    def judge(self, client: str, way: Way, play: Callable[[], str]) -> None:
        """Play one cell and print it."""
        began = time.monotonic()
        try:
            outcome = play()
        except Exception as error:  # noqa: BLE001 - whatever a client raises is told
            outcome = f"FAILED: {type(error).__name__}: {error}"
        self.rows.setdefault(client, {})[way.title] = outcome
        seconds = time.monotonic() - began
        print(f"  {client:20} {way.title:24} {seconds:5.1f} s  {outcome[:300]}", flush=True)

    def play_story(self, client: str, story: Story) -> None:
        """Play all cells of a client of Python."""
        for way in self.ways():
            topic = f"{client}-{way.title}".lower().replace(" ", "-").replace("_", "-")
            self.judge(client, way, partial(self._works, story, way, topic))
        for way in self.refusals():
            self.judge(client, way, partial(self._refused, story, way))

    def _works(self, story: Story, way: Way, topic: str) -> str:
        found = story(self.bootstrap(way), way.security, topic)
        assert found == [*VALUES, b"4"], found
        return "works"

    def _refused(self, story: Story, way: Way) -> str:
        words = Told()
        logging.getLogger().addHandler(words)
        try:
            story(self.bootstrap(way), way.security, "refused")
        except Exception as error:  # noqa: BLE001 - each client has its own
            told = f"{type(error).__name__} {error} {' '.join(words.lines)}".lower()
        else:
            raise AssertionError("let in")
        finally:
            logging.getLogger().removeHandler(words)
        wanted = "authentication" if way.title == WRONG_PASSWORD else "certificate"
        assert wanted in told, told
        return "refused"

    def play_program(self, client: str, program: Program) -> None:
        """Play all cells of a client of another language."""
        command = program.prepare()
        for way in self.ways():
            self.judge(client, way, partial(self._ran, command, program, way))
        for way in self.refusals():
            self.judge(client, way, partial(self._ran, command, program, way))

    def _ran(self, command: list[str], program: Program, way: Way) -> str:
        refusal = way.title in REFUSALS
        names = (way.title,) if refusal else program.scenarios
        file = self.place / "client.properties"
        with open(file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.writelines(
                f"{key}={value}\n" for key, value in program.settings(way.security).items()
            )
        done = subprocess.run(
            [*command, self.bootstrap(way), *names],
            env={**os.environ, "CLIENT_PROPERTIES": str(file)}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX, check=False,
        )  # fmt: skip
        passed = [line.removeprefix("ok ") for line in done.stdout.splitlines()
                  if line.startswith("ok ")]  # fmt: skip
        assert passed == list(names), done.stdout[-1500:] + done.stderr[-1500:]
        return "refused" if refusal else "works"

    def table(self) -> str:
        """Return all cells as a table."""
        titles = [way.title for way in (*self.ways(), *self.refusals())]
        width = max(map(len, self.rows))
        lines = ["  ".join([" " * width, *titles])]
        for client, cells in self.rows.items():
            shown = [cells.get(title, "-").split(":")[0].ljust(len(title)) for title in titles]
            lines.append("  ".join([client.ljust(width), *shown]))
        return "\n".join(lines)


class Told(logging.Handler):
    """Keeps what clients log: some raise that they reach nobody, and log why."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a client's line."""
        if not record.name.startswith("headrace"):
            with suppress(Exception):
                self.lines.append(record.getMessage())


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 where each client works by each way and is refused as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.outside.kafka_tools.secured_clients")
    parser.add_argument("clients", nargs="*", help="parts of names; all without one")
    parser.add_argument("--python", action="store_true", help="Python's clients only")
    given = parser.parse_args(arguments)
    logging.disable(logging.NOTSET)
    logging.getLogger().addHandler(logging.NullHandler())

    def wanted(client: str) -> bool:
        return not given.clients or any(part.lower() in client.lower() for part in given.clients)

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headrace-secured-") as directory:
        matrix = Matrix(Path(directory))
        with matrix.broker:
            add_scram_users(matrix.broker)
            for client, story in STORIES.items():
                if wanted(client):
                    matrix.play_story(client, story)
            for client, program in {} if given.python else PROGRAMS.items():
                if wanted(client):
                    matrix.play_program(client, program)
        print(f"\nclients by how they come to a listener, {time.monotonic() - began:.0f} s")
        print(matrix.table())
        failed = any(
            cell.startswith("FAILED") for row in matrix.rows.values() for cell in row.values()
        )
    return int(failed or not matrix.rows)


if __name__ == "__main__":
    sys.exit(main())
