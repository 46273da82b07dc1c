"""Scenarios in Java, Go and JavaScript: RabbitMQ's own clients and amqplib.

Their programs lie in tests/outside/amqp/java, go and node, and know every scenario by the name it
has here; Maven, Go and npm fetch what they need the first time. A process plays one scenario.
"""

import functools
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.outside.amqp.address import Address
from tests.outside.kafka_tools import programs
from tests.outside.matrix.scenario import Play, Scenario, Skipped

PLACE = Path(__file__).parents[1]
SECONDS_MAX = 90
TOPICS: dict[str, tuple[str, ...]] = {
    "connections": (
        "the server says what it can",
        "a wrong password is refused",
        "an unknown virtual host is refused",
        "heartbeats keep an idle connection",
        "a cut connection is made again",
        "a refusal closes its channel alone",
        "what is not implemented closes the connection",
    ),
    "consuming": (
        "prefetch bounds what is outstanding",
        "several are acknowledged at once",
        "what is handed back comes again in its place",
        "what a closed channel held comes again",
        "a deleted queue cancels its consumer",
        "an exclusive consumer keeps others away",
        "an unknown delivery tag closes the channel",
        "get tells what is left",
    ),
    "dead_letters": (
        "a rejected message dies with its history",
        "an expired message dies with its history",
    ),
    "exchanges": (
        "a topic exchange matches words",
        "a headers exchange matches all or any",
        "exchanges are bound to exchanges",
        "an alternate exchange takes what nobody wants",
    ),
    "programs": ("a procedure is called over direct reply to",),
    "publishing": (
        "every message is confirmed",
        "what cannot be routed comes back before its confirm",
        "bodies of many frames come back whole",
        "properties and headers come back as they were",
        "a transaction is committed and another rolled back",
        "a full queue refuses what is published",
    ),
    "queues": (
        "a queue named by the server goes with its connection",
        "unequal arguments are refused",
        "purging and deleting tell how many there were",
        "messages and queues expire",
        "urgent messages go first",
        "a bounded queue drops its oldest",
    ),
}
"""What each client plays, topic by topic."""
NOT_IN_AMQPLIB = frozenset(
    {
        "what is not implemented closes the connection",
        "a transaction is committed and another rolled back",
    }
)
"""It has no `immediate`, and no transactions."""


def installed(prepare: Callable[[], list[str]]) -> list[str]:
    """The command line that `prepare` makes. Skipped where its language is not here."""
    try:
        return prepare()
    except programs.NotInstalled as missing:
        raise Skipped(str(missing)) from missing


def _plays(prepare: Callable[[], list[str]], claim: str) -> Play:
    """A scenario that a program plays."""

    def _play(address: Address) -> None:
        command = installed(prepare)
        name = claim.replace(" ", "-")
        done = subprocess.run(
            [*command, address.url, name],
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        said = (done.stdout.strip() or done.stderr[-2000:]).removeprefix(f"failed {name}: ")
        assert f"ok {name}" in done.stdout.splitlines(), said

    return _play


def _scenarios(
    client: str, prepare: Callable[[], list[str]], without: Sequence[str] | frozenset[str] = ()
) -> list[Scenario]:
    prepared = functools.cache(prepare)
    return [
        Scenario(client, topic, claim, _plays(prepared, claim))
        for topic, claims in TOPICS.items()
        for claim in claims
        if claim not in without
    ]


SCENARIOS = [
    *_scenarios("java", lambda: programs.java_program("Scenarios", place=PLACE / "java")),
    *_scenarios("go", lambda: programs.go_program(PLACE / "go")),
    *_scenarios("node", lambda: programs.node_program(PLACE / "node"), NOT_IN_AMQPLIB),
]
