"""The other languages' clients through named scenarios: Apache's Java client, franz-go, KafkaJS.

Their programs lie in tests/outside/clients/java, go and node; Maven, Go and npm fetch what they
need the first time. Each scenario is listed by name; those whose APIs are not served are left
out and said to be. A scenario that prints "restart me" has its broker killed and started.

    python -m tests.outside.kafka_tools.clients [--kafka] [--cluster] [java|go|node …] [scenario …]

`--kafka` has a real Kafka in the broker's place: that is how one learns whether a scenario asks too
much. `--cluster` has three brokers on ZooKeeper, and the leader of the scenario's topic killed, and
left down meanwhile.
"""

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.frontends.kafka.connection.registry import APIS
from headrace.wire.kafka.api import ApiKey
from tests.outside.kafka_reads_our_files.brokers import Headrace, Kafka4
from tests.outside.kafka_tools import programs
from tests.outside.kafka_tools.__main__ import SETTINGS
from tests.outside.kafka_tools.clusters import LeaderKilled

SECONDS_MAX = 420
"""One program with all its scenarios."""
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_COMMON = (
    "headers-tombstones",
    "group-classic",
    "commit-and-resume",
    "admin-topics",
    "admin-configs",
    "admin-records",
    "transactions",
)
_NEEDS: dict[str, tuple[ApiKey, ...]] = {
    "transactions": (ApiKey.END_TXN, ApiKey.LIST_TRANSACTIONS),
    "exactly-once-copy": (ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT),
    "group-consumer": (ApiKey.CONSUMER_GROUP_HEARTBEAT,),
    "share-group": (ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH),
    "admin-quotas": (ApiKey.ALTER_CLIENT_QUOTAS,),
}
RIDE_THROUGH = ("restart", "restart-transactions")
"""What is played on a cluster: with the clients' own settings, they notice nothing of a leader's
death but that it takes a while. Not of share groups: their state is with one broker only."""
NOT_KAFKAS = frozenset({"not-served"})
"""Scenarios that are about what only we leave out."""
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 6_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


@dataclass(frozen=True)
class Client:
    """One language's client: how its program is made ready and run, and what it is asked."""

    name: str
    title: str
    prepare: Callable[[], list[str]]
    """Fetch and build what is missing; returns the command line. Missing: a program."""
    scenarios: tuple[str, ...]
    rides_through: tuple[str, ...] = RIDE_THROUGH


CLIENTS = (
    Client(
        "java",
        "Apache Kafka's Java client 4.3.1",
        lambda: programs.java_program("Scenarios"),
        (
            *(f"produce-consume-{codec}" for codec in _CODECS),
            *_COMMON,
            "group-consumer",
            "group-static-classic",
            "group-static-consumer",
            "group-cooperative",
            "group-regex-classic",
            "group-regex-consumer",
            "group-upgrade",
            "group-too-slow",
            "consumer-places",
            "producer-refusals",
            "producer-fenced",
            "log-append-time",
            "exactly-once-copy",
            "transaction-timeout",
            "share-group",
            "telemetry",
            "admin-cluster",
            "admin-dry-runs",
            "admin-groups",
            "admin-ids",
            "admin-lists",
            "admin-quotas",
            "admin-refusals",
            "admin-transactions",
            "not-served",
            "reassignments",
            "restart",
            "restart-transactions",
            "without-security",
        ),
    ),
    Client(
        "java",
        "Apache Kafka's Java client 4.3.1, share groups",
        lambda: programs.java_program("ShareGroups"),
        (
            "implicit",
            "explicit",
            "shared",
            "lease",
            "renew",
            "limit",
            "transactions",
            "offsets",
            "restart",
        ),
        rides_through=(),
    ),
    Client(
        "go",
        "franz-go 1.22.2",
        programs.go_program,
        (
            *(f"produce-consume-{codec}" for codec in _CODECS),
            *_COMMON,
            "group-range",
            "group-cooperative",
            "group-consumer",
            "group-static",
            "group-regex",
            "exactly-once-copy",
            "share-group",
            "admin-groups",
            "admin-quotas",
            "admin-transactions",
            "refusals",
            "restart",
            "restart-transactions",
        ),
    ),
    Client(
        "node",
        "KafkaJS 2.2.4",
        programs.node_program,
        (
            *(f"produce-consume-{codec}" for codec in ("none", "gzip", "snappy")),
            *_COMMON,
            "each-batch",
            "group-regex",
            "seek-and-pause",
            "exactly-once-copy",
            "admin-groups",
            "refusals",
            "restart",
        ),
    ),
)


class Judged(Protocol):
    """What a program talks to, and what is done to it where the program asks for that."""

    @property
    def bootstrap(self) -> str: ...
    def kill(self) -> None: ...
    def start(self) -> object: ...


class Run:
    """One program's run: its lines as they come, the broker killed where it asks for that."""

    def __init__(self, client: Client, broker: Judged, errors: Path) -> None:
        self.client = client
        self.broker = broker
        self.errors = errors
        self.passed: list[str] = []
        self.wrong: list[str] = []
        self._since = time.monotonic()

    def run(self, wanted: Sequence[str]) -> None:
        """Have the program go through these scenarios."""
        try:
            command = self.client.prepare()
        except programs.Missing as missing:
            self.wrong.append(str(missing))
            return
        with self.errors.open("wb") as errors:
            process = subprocess.Popen(
                [*command, self.broker.bootstrap, *wanted],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )
            late = threading.Timer(SECONDS_MAX, process.kill)
            late.start()
            self._since = time.monotonic()
            try:
                self._follow(process)
                status = process.wait()
            finally:
                late.cancel()
                process.kill()
        done = len(self.passed) + len(self.wrong)
        if done < len(wanted):
            text = self.errors.read_text(errors="replace")[-3000:]
            self.wrong.append(f"ended early, status {status}, after {done} scenarios: {text}")

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        for line in process.stdout:
            word, _, rest = line.strip().partition(" ")
            if line.strip() == "restart me":
                self.broker.kill()
                self.broker.start()
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write("\n")
                    process.stdin.flush()
            elif word in {"ok", "failed"}:
                now = time.monotonic()
                name, _, why = rest.partition(":")
                (self.passed if word == "ok" else self.wrong).append(rest)
                shown = "passed" if word == "ok" else f"FAILED: {why}"
                seconds = now - self._since
                print(f"  {self.client.name:5} {name:26} {seconds:5.1f} s  {shown}", flush=True)
                self._since = now


def _settings() -> dict[str, object]:
    return {name.replace(".", "_"): value for name, value in (SETTINGS | QUICK).items()}


def _judge(client: Client, broker: Judged, names: Sequence[str], errors: Path) -> Run:
    served = {api.key for api in APIS}
    if isinstance(broker, LeaderKilled):
        broker.mend()
    run = Run(client, broker, errors)
    wanted = []
    for name in names:
        if served.issuperset(_NEEDS.get(name, ())):
            wanted.append(name)
        else:
            print(f"  {client.name:5} {name:26} left out: its APIs are not served", flush=True)
    run.run(wanted)
    if run.wrong and errors.exists():
        print(errors.read_text(errors="replace")[-6000:], file=sys.stderr)
    return run


def _wanted(client: Client, scenarios: set[str], *, kafka: bool, cluster: bool) -> list[str]:
    return [
        name
        for name in client.scenarios
        if (not scenarios or name in scenarios)
        and not (kafka and name in NOT_KAFKAS)
        and (not cluster or name in client.rides_through)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 where every scenario passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.outside.kafka_tools.clients")
    parser.add_argument("names", nargs="*", help="java, go, node, scenarios; all without one")
    parser.add_argument("--kafka", action="store_true", help="against Apache Kafka, as a control")
    parser.add_argument("--cluster", action="store_true", help="three brokers, leaders killed")
    given = parser.parse_args(arguments)
    if given.cluster and given.kafka:
        parser.error("--cluster is of our brokers")
    languages = {one.name for one in CLIENTS}
    asked = set(given.names) & languages or languages
    scenarios = set(given.names) - languages
    place = Path(tempfile.mkdtemp(prefix="headrace-clients-"))
    kind = LeaderKilled if given.cluster else Kafka4 if given.kafka else Headrace
    failed, lines, began = False, [], time.monotonic()
    try:
        with kind(place, place / "log", **_settings()) as broker:
            for client in CLIENTS:
                names = _wanted(client, scenarios, kafka=given.kafka, cluster=given.cluster)
                if client.name not in asked or not names:
                    continue
                # Where a broker stays down, the next scenario begins with all of them again.
                parts = [[name] for name in names] if given.cluster else [names]
                runs = [
                    _judge(client, broker, part, place / f"{client.name}.err") for part in parts
                ]
                wrong = [line for run in runs for line in run.wrong]
                failed = failed or bool(wrong)
                lines.append(
                    f"{client.title}: {sum(len(run.passed) for run in runs)} of {len(names)}"
                    f" scenarios passed, {len(wrong)} failed"
                )
                lines += [f"    {line}" for line in wrong]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print("\n".join(lines))
    print(f"clients: {time.monotonic() - began:.0f} s")
    return int(failed or not lines)


if __name__ == "__main__":
    sys.exit(main())
