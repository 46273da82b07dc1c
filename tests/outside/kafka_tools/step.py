"""One run of one of Kafka's tools, and the names of those tools."""

import contextlib
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.wire.kafka.api import ApiKey
from tests.outside.kafka_reads_our_files.brokers import Broker
from tests.outside.kafka_reads_our_files.jvm import KAFKA_4, java
from tests.outside.kafka_tools import masks
from tests.outside.kafka_tools.masks import Mask
from tests.outside.kafka_tools.tools import Tools
from tests.support.processes.process import wait_or_kill

if TYPE_CHECKING:
    from collections.abc import Callable

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
SHARE = f"{TOOLS}.consumer.group.ShareGroupCommand"
PRODUCER = f"{TOOLS}.ConsoleProducer"
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
SHARE_CONSUMER = f"{TOOLS}.consumer.ConsoleShareConsumer"
OFFSETS = f"{TOOLS}.GetOffsetShell"
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"
ADMINISTRATIVE = frozenset(
    {
        TOPICS,
        CONFIGS,
        GROUPS,
        SHARE,
        OFFSETS,
        TRANSACTIONS,
        *(
            f"{TOOLS}.{name}"
            for name in (
                "AclCommand",
                "BrokerApiVersionsCommand",
                "ClientMetricsCommand",
                "ClusterTool",
                "DelegationTokenCommand",
                "DeleteRecordsCommand",
                "FeatureCommand",
                "GroupsCommand",
                "LeaderElectionCommand",
                "LogDirsCommand",
                "MetadataQuorumCommand",
                "reassign.ReassignPartitionsCommand",
                "streams.StreamsGroupCommand",
            )
        ),
    }
)
"""Those that ask and end: they run in one JVM. The others have one each, as a user's have."""
END_SECONDS_MAX = 30.0


@dataclass(frozen=True)
class Printed:
    """What one run of a tool ended with."""

    status: int
    lines: list[str]
    raw: str

    @property
    def shown(self) -> list[str]:
        """Everything that is compared."""
        return [*self.lines, f"exit status {self.status}"]


@dataclass(frozen=True)
class Step:
    """One run of one tool; or, without a tool, something done to the brokers."""

    name: str
    tool: str = ""
    words: str = ""
    stdin: str = ""
    mask: tuple[Mask, ...] = ()
    needs: tuple[ApiKey, ...] = ()
    seconds_max: float = 60.0
    prepare: "Callable[[Side], None] | None" = None
    """Done before the tool runs."""
    meanwhile: "Callable[[Side], None] | None" = None
    """Done while the tool runs; the tool must outlive it."""
    check: "Callable[[Side], list[str]] | None" = None
    """Instead of a tool's output: what is wrong on one side."""
    address: str = "--bootstrap-server {broker}"
    known: str = ""
    """Why the outputs differ, where that is accepted."""
    heap: int = 128
    expected: tuple[str, ...] = field(default=())
    """Texts that must be in what is printed: an output that is the same and empty proves little."""


class Side:
    """One broker and the directory its tools may write to."""

    def __init__(self, broker: Broker, place: Path, *flags: str) -> None:
        self.broker = broker
        self.place = place
        self._flags = flags
        self._tools = Tools()
        self._behind: dict[str, subprocess.Popen[str]] = {}
        place.mkdir(parents=True, exist_ok=True)

    def command(self, tool: str, words: str, heap: int = 128) -> list[str]:
        """A tool's command line; `{broker}` and `{place}` in the words are filled in."""
        filled = words.format(broker=self.broker.bootstrap, place=self.place)
        return java(KAFKA_4, heap, *self._flags, tool, *filled.split())

    def run(self, step: Step) -> Printed:
        """Run one step; one that cannot be run says why, and that differs from all others."""
        try:
            return self._run(step)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            return Printed(-1, [f"{self.broker.name}: {error}"], "")

    def _run(self, step: Step) -> Printed:
        if step.prepare is not None:
            step.prepare(self)
        if step.check is not None:
            return Printed(0, step.check(self), "")
        if not step.tool:
            return Printed(0, [], "")
        if step.tool in ADMINISTRATIVE and step.meanwhile is None and not step.stdin:
            return self._administered(step)
        process = self._start(step.tool, f"{step.words} {step.address}", step.heap, step.stdin)
        try:
            if step.meanwhile is not None:
                step.meanwhile(self)
            out, err = process.communicate(step.stdin or None, timeout=step.seconds_max)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return self._late(step, out + err)
        finally:
            process.kill()
        return Printed(process.returncode, self.masked(step, out, err), out + err)

    def _late(self, step: Step, raw: str = "") -> Printed:
        """Differs from the other side's, too: that neither ends says nothing of what they do."""
        return Printed(-1, [f"{self.broker.name}: not done after {step.seconds_max:g} s"], raw)

    def _administered(self, step: Step) -> Printed:
        words = f"{step.words} {step.address}"
        filled = words.format(broker=self.broker.bootstrap, place=self.place)
        done = self._tools.run([step.tool, *filled.split()], step.seconds_max)
        if done is None:
            return self._late(step)
        status, out, err = done
        return Printed(status, self.masked(step, out, err), out + err)

    def masked(self, step: Step, out: str, err: str) -> list[str]:
        """What is compared of what a tool printed."""
        places = (str(self.broker.log.resolve()), str(self.broker.log), str(self.place))
        found = masks.lines(out, places) + masks.lines(err, places)
        for mask in step.mask:
            found = mask(found)
        return found

    def behind(self, name: str, tool: str, words: str, until: str) -> None:
        """Start a tool that runs on, and wait for a text in its output."""
        path = self.place / f"{name}.out"
        with path.open("wb") as out:
            command = self.command(tool, f"{words} --bootstrap-server {{broker}}")
            self._behind[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.place, text=True
            )
        deadline = time.monotonic() + END_SECONDS_MAX
        while until not in path.read_text(errors="replace"):
            if self._behind[name].poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{name}: {path.read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)

    def end(self, name: str) -> None:
        """End a tool that runs on, as Ctrl-C and its like do."""
        process = self._behind.pop(name)
        process.terminate()
        wait_or_kill(process, END_SECONDS_MAX)

    def close(self) -> None:
        """End all tools that run on."""
        for name in list(self._behind):
            self.end(name)
        self._tools.close()

    def _start(self, tool: str, words: str, heap: int, stdin: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(tool, words, heap),
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.place,
        )


def archive(broker: Broker, path: Path) -> list[str]:
    """Flags with which the tools start sooner: their classes, as the JVM keeps them in a file."""
    words = ["--list", "--bootstrap-server", broker.bootstrap]
    command = java(KAFKA_4, 256, f"-XX:ArchiveClassesAtExit={path}", TOPICS, *words)
    subprocess.run(command, capture_output=True, check=False)
    return [f"-XX:SharedArchiveFile={path}", "-Xlog:cds=off"] if path.exists() else []


def restart(side: Side) -> None:
    """kill -9, and start again; returns when all partitions are led."""
    side.broker.kill()
    side.broker.start()
    admin = AdminClient({"bootstrap.servers": side.broker.bootstrap, "log_level": 0})
    deadline = time.monotonic() + END_SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):
            topics = admin.list_topics(timeout=5).topics.values()
            if all(part.leader >= 0 for one in topics for part in one.partitions.values()):
                return
        time.sleep(0.1)
    raise AssertionError(f"{side.broker.name}: partitions without leaders after a restart")
