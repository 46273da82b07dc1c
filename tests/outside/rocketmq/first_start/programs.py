"""The Java programs that play the cases, on any broker: which cases, in which processes."""

import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.outside.rocketmq.jvm import JAVA, JVM, libraries
from tests.support.rocketmq.recorded_starts import Case, row_of

RUNS_MAX = 3
UNANSWERED = ("Remoting", "Can not find Message Queue for this topic")
"""Errors of clients that got no answer; the second one has the first as its cause."""
TOGETHER = 3
"""Processes that run at once: most of their time is waiting."""
_SHIM = "shim/MM.java"
_MOVED = {
    "remoting.protocol.heartbeat": "common.protocol.heartbeat",
    "remoting.protocol.subscription": "common.subscription",
}
"""Packages of 5.x and their names in 4.9."""

Operator = Callable[[str], None]
"""Does what a program asks for: `expire TOPIC`, `send PROTOCOL TOPIC`, `create TOPIC`."""


class Client(NamedTuple):
    """RocketMQ's Java client with these programs."""

    class_path: str
    home: Path


class Target(NamedTuple):
    """A broker that cases are played on."""

    name: str
    """As the programs are told; Headrace is `ours`."""
    name_server: str
    broker: str
    operator: Operator
    within: tuple[str, ...] = ()
    """Words before a program's command, which run it on the broker's host."""


class Play(NamedTuple):
    """Processes of a program that run one after the other."""

    program: str
    runs: tuple[tuple[str, ...], ...]
    """Words of each; those with a leading `-D` are properties. `expire TOPIC` is the operator's."""


def _old_topic(name: str, tag: str, case: str, *between: tuple[str, ...]) -> Play:
    topic = f"-Doldtopic={name}"
    play = (topic, f"-Dcasename={case}", f"-Dtag={tag}", "old")
    return Play("FirstStart", ((topic, "prep-old"), *between, play))


STARTS = (
    Play("FirstStart", (("young", "empty", "emptyrace", "oldgroup"),)),
    Play("FirstStart", (("expand", "bcast", "switch3"),)),
    Play("GroupBeginnings", (("members", "killed", "again"),)),
    Play("GroupBeginnings", (("ten", "numbers", "hidden", "skip", "times"),)),
)
"""The cases of a group's start, on any broker."""
EXPIRED = Play("GroupBeginnings", (("expired",),))
WARM = _old_topic("WarmTopic", "warm", "1e-new-group-first-entry-warm")
COLD = _old_topic("ColdTopic", "cold", "1e-new-group-first-entry-cold")
OLD = _old_topic("OldTopic", "old", "1d-new-group-old-topic", ("expire", "OldTopic"))
FOREIGN = Play("GroupBeginnings", (("foreign",),))
RESETS = (
    Play("FirstStart", (("reset", "switch"),)),
    Play("FirstStart", (("reset2", "switch2"),)),
)
"""Where a group goes on after an operator moved it; the rule for new groups has no part in it."""


def client(version: str, folder: Path) -> Client:
    """Return a version of the client with the programs, compiled into a folder."""
    libs = libraries(version, "mqadmin.xml")
    shim = (JAVA / _SHIM).read_text()
    if version.startswith("4."):
        for new, old in _MOVED.items():
            shim = shim.replace(new, old)
    made = folder / "MM.java"
    made.write_text(shim)
    sources = [made, JAVA / "FirstStart.java", JAVA / "GroupBeginnings.java"]
    subprocess.run(
        ["javac", "-nowarn", "-d", folder, "-cp", f"{libs}/*", *sources],
        check=True, timeout=300, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return Client(f"{folder}:{libs}/*", folder)


def played(with_client: Client, target: Target, plays: tuple[Play, ...]) -> dict[Case, str]:
    """Play cases on a broker; return what happened in each. AssertionError: a program failed."""
    with ThreadPoolExecutor(TOGETHER) as pool:
        found = [pool.submit(_play, with_client, target, play) for play in plays]
    return {case: outcome for each in found for case, outcome in each.result()}


def _play(with_client: Client, target: Target, play: Play) -> list[tuple[Case, str]]:
    found = []
    for words in play.runs:
        if words[0] == "expire":
            target.operator(" ".join(words))
            continue
        lines, rows, failed = _run_patiently(with_client, target, play.program, words)
        is_preparation = "prep-old" in words
        assert not failed, "\n".join(lines)[-6000:]
        assert rows or is_preparation, "\n".join(lines)[-6000:]
        found += rows
    return found


def _run_patiently(
    with_client: Client, target: Target, program: str, words: tuple[str, ...]
) -> tuple[list[str], list[tuple[Case, str]], list[str]]:
    """Return a run's lines, rows and failures; on a busy machine requests of a run time out, and
    the run is repeated."""
    for _ in range(RUNS_MAX):
        lines = _run(with_client, target, program, words)
        rows = [row for row in map(row_of, lines) if row is not None]
        failed = [outcome for _, outcome in rows if "Exception" in outcome or "Error" in outcome]
        if not any(said in outcome for outcome in failed for said in UNANSWERED):
            break
    return lines, rows, failed


def _run(with_client: Client, target: Target, program: str, words: tuple[str, ...]) -> list[str]:
    properties = [word for word in words if word.startswith("-D")]
    cases = [word for word in words if not word.startswith("-D")]
    if program == "FirstStart":
        given = [target.name, "DefaultCluster", target.broker, *cases]
    else:
        given = [target.name, target.name_server, target.broker, *cases]
    # Consumers that broadcast find their offsets below it: each run begins without any.
    home = tempfile.mkdtemp(dir=with_client.home)
    command = [
        *target.within, *JVM, f"-Duser.home={home}", f"-Dns={target.name_server}",
        "-Drocketmq.client.rebalance.waitInterval=2000", *properties,
        "-cp", with_client.class_path, program, *given,
    ]  # fmt: skip
    lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        cwd=home,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if line.startswith("DO "):
                    target.operator(line.removeprefix("DO ").strip())
                    process.stdin.write("done\n")
                    process.stdin.flush()
        finally:
            process.kill()
    return lines
