"""The other languages' clients through named scenarios: Apache's Java client, franz-go, KafkaJS.

Their programs lie in tests/compat/java, go and node; what they need is fetched by Maven, Go and npm
the first time. Each scenario is listed by name; those whose APIs are not served are left out and
said to be.

    python -m tests.compat_tools.clients [java|go|node …]
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.frontends.kafka.registry import APIS
from headrace.wire.kafka.api import ApiKey
from tests.kafka_judge.brokers import Headrace
from tests.kafka_judge.jvm import NoJvm, java

PROGRAMS = Path(__file__).parents[1] / "compat"
SECONDS_MAX = 900
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


@dataclass(frozen=True)
class Client:
    """One language's client: how its program is made ready and run, and what it is asked."""

    name: str
    title: str
    prepare: Callable[[Path], list[str]]
    """Fetch what is missing in the directory; returns the command line. Missing: a program."""
    scenarios: tuple[str, ...]


class Missing(Exception):
    """A program that is needed is not installed."""


def _needed(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")


def _java(place: Path) -> list[str]:
    try:
        return [*java(place, 256, str(place / "Scenarios.java"))]
    except NoJvm as error:
        raise Missing(str(error)) from error


def _java_share(place: Path) -> list[str]:
    return [*_java(place)[:-1], str(place / "ShareGroups.java")]


def _go(place: Path) -> list[str]:
    _needed("go")
    program = place / "target" / "scenarios"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=place, check=True)
    return [str(program)]


def _node(place: Path) -> list[str]:
    _needed("node", "npm")
    if not (place / "node_modules").is_dir():
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock"]
        subprocess.run(command, cwd=place, check=True)
    return ["node", str(place / "scenarios.js")]


CLIENTS = (
    Client(
        "java",
        "Apache Kafka's Java client 4.3.1",
        _java,
        (
            *(f"produce-consume-{codec}" for codec in _CODECS),
            *_COMMON,
            "group-consumer",
            "admin-quotas",
            "exactly-once-copy",
            "share-group",
        ),
    ),
    Client(
        "java",
        "Apache Kafka's Java client 4.3.1, share groups",
        _java_share,
        ("implicit", "explicit", "shared", "lease", "renew", "limit", "transactions", "offsets"),
    ),
    Client(
        "go",
        "franz-go",
        _go,
        (*(f"produce-consume-{codec}" for codec in _CODECS), *_COMMON),
    ),
    Client(
        "node",
        "KafkaJS 2.2.4",
        _node,
        ("produce-consume-none", "produce-consume-gzip", *_COMMON),
    ),
)


def run(client: Client, bootstrap: str) -> tuple[int, list[str]]:
    """How many scenarios passed, and those that did not, with why."""
    served = {api.key for api in APIS}
    wanted = [name for name in client.scenarios if served.issuperset(_NEEDS.get(name, ()))]
    left_out = [name for name in client.scenarios if name not in wanted]
    try:
        command = client.prepare(PROGRAMS / client.name)
    except Missing as missing:
        return 0, [str(missing)]
    done = subprocess.run(
        [*command, bootstrap, *wanted],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        cwd=PROGRAMS / client.name,
    )
    said = done.stdout.splitlines()
    passed = [name for name in wanted if f"ok {name}" in said]
    for name in client.scenarios:
        word = "passed" if name in passed else "left out" if name in left_out else "FAILED"
        print(f"  {client.name:5} {name:26} {word}", flush=True)
    wrong = [line for line in said if line.startswith("failed ")]
    if len(passed) + len(wrong) < len(wanted):
        wrong.append(f"ended early, status {done.returncode}: {done.stderr[-2000:]}")
    return len(passed), wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 where every scenario passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat_tools.clients")
    parser.add_argument("clients", nargs="*", help="java, go, node; all without one")
    given = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="headrace-clients-"))
    failed = False
    lines = []
    try:
        with Headrace(place, place / "log") as broker:
            for client in CLIENTS:
                if given.clients and client.name not in given.clients:
                    continue
                passed, wrong = run(client, broker.bootstrap)
                failed = failed or bool(wrong)
                lines.append(f"{client.title}: {passed} passed, {len(wrong)} failed")
                lines += [f"    {line}" for line in wrong]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print("\n".join(lines))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
