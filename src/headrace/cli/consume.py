"""`headrace consume`: print records as they come."""

import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from headrace.cli.broker_options import BrokerOptions, Json, check_seconds, pairs
from headrace.cli.failure import UsageError, not_found
from headrace.cli.formats import Formatter, json_formatter, text_formatter
from headrace.cli.offset_positions import Place, parse_place, resolve_places
from headrace.cli.output import note
from headrace.client import groups
from headrace.client.client import Client
from headrace.client.consumer import Chunk, Consumer
from headrace.client.groups import Committed
from headrace.client.member import Member
from headrace.client.offsets import EARLIEST, LATEST
from headrace.client.sync import run
from headrace.model.nouns import TopicPartition

if TYPE_CHECKING:
    from headrace.model.errors import ErrorCode

COMMIT_SECONDS = 5.0
_DEFAULT_FORMAT = "%v\\n"


@Parameter(name="*")
@dataclass(frozen=True)
class ConsumeOptions:
    """Which records."""

    from_beginning: Annotated[
        bool,
        Parameter(name="--from-beginning", negative=(), help="All there are, not only new ones."),
    ] = False
    offset: Annotated[
        str | None,
        Parameter(
            name=["-o", "--offset"],
            allow_leading_hyphen=True,
            help="start, end, a number, -N (the last N of each partition), @time.",
        ),
    ] = None
    partitions: Annotated[
        tuple[str, ...],
        Parameter(name=["-p", "--partition", "--partitions"], negative=(), help="Only these."),
    ] = ()
    max_messages: Annotated[
        int | None,
        Parameter(name=["-n", "--max-messages", "--num", "-c"], help="End after so many."),
    ] = None
    group: Annotated[
        str | None,
        Parameter(name=["-g", "--group"], help="Read as a member of this group, and commit."),
    ] = None
    timeout: Annotated[
        float | None,
        Parameter(name="--timeout", help="End when nothing came for so many seconds."),
    ] = None
    timeout_ms: Annotated[int | None, Parameter(name="--timeout-ms", show=False)] = None
    until_end: Annotated[
        bool,
        Parameter(
            name=["-e", "--until-end", "--exit-eof"],
            negative=(),
            help="End when all that is there has been printed.",
        ),
    ] = False
    isolation: Annotated[
        Literal["read_committed", "read_uncommitted"], Parameter(name="--isolation-level")
    ] = "read_uncommitted"
    read_committed: Annotated[
        bool, Parameter(name="--read-committed", negative=(), help="Only decided transactions.")
    ] = False

    @property
    def seconds(self) -> float | None:
        """How long nothing may come."""
        return self.timeout_ms / 1000 if self.timeout_ms is not None else self.timeout

    def check(self) -> None:
        """Raise UsageError where flags make no sense together."""
        if self.group and self.partitions:
            raise UsageError("--group and --partition: the group decides who reads what")
        if self.from_beginning and self.offset is not None:
            raise UsageError("--from-beginning and --offset: one of them at most")
        if self.seconds is not None:
            check_seconds("--timeout", self.seconds)
        if self.max_messages is not None and self.max_messages < 1:
            raise UsageError(f"--max-messages {self.max_messages}: must be at least 1")

    def place(self) -> Place:
        """Return where to begin."""
        if self.offset is not None:
            return parse_place(self.offset, "--offset")
        return Place("time", EARLIEST if self.from_beginning else LATEST)


@Parameter(name="*")
@dataclass(frozen=True)
class PrintOptions:
    """What is printed of a record."""

    format: Annotated[
        str | None,
        Parameter(
            name=["-f", "--format"],
            help="%%t topic, %%p partition, %%o offset, %%k key, %%v value, %%h headers, %%d time"
            " in ms, %%D time, %%K and %%V lengths, \\n, \\t.".replace("%%", "%"),
        ),
    ] = None
    properties: Annotated[
        tuple[str, ...],
        Parameter(
            name="--property", negative=(), help="print.key=true and the like, as Kafka's command."
        ),
    ] = ()
    formatter: Annotated[
        str | None,
        Parameter(
            name="--formatter",
            help="What the coordinators' records say: offsets, group-metadata, consumer-groups,"
            " share-groups of __consumer_offsets, transactions of __transaction_state,"
            " share-state of __share_group_state.",
        ),
    ] = None

    def formatter_for(self, *, json: bool) -> Formatter:
        """Make a function from a record to the bytes to print. UsageError."""
        if self.formatter is not None:
            from headrace.cli.coordinator_formats import coordinator_formatter

            return coordinator_formatter(self.formatter)
        if json:
            if self.format is not None:
                raise UsageError("--json and --format: one of them at most")
            return json_formatter()
        text = self.format
        if text is None:
            text = _format_of(pairs("--property", self.properties))
        return text_formatter(text)


def consume(
    *topics: Annotated[str, Parameter(help="What to read.")],
    options: ConsumeOptions = ConsumeOptions(),
    printing: PrintOptions = PrintOptions(),
    topic_flag: Annotated[tuple[str, ...], Parameter(name="--topic", show=False, negative=())] = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Print the records of topics, new ones as they come."""
    names = topics + topic_flag
    if not names:
        raise UsageError("name at least one topic")
    options.check()
    printer = Printer(printing.formatter_for(json=json), options.max_messages)
    # As Ctrl-C: a member's offsets are left and its partitions given back at once.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with cluster.client() as client:
        _check_topics(client, names)
        reader = _Reader(client, names, options)
        try:
            reader.begin()
            _print_all(reader, printer, options)
        finally:
            reader.close(printer.printed)


def _check_topics(client: Client, names: tuple[str, ...]) -> None:
    known = run(client.metadata(list(names)))
    for name in names:
        if name not in known.topics or known.topics[name].error_code:
            everything = run(client.metadata())
            if name not in everything.topics:
                raise not_found("topic", name, sorted(everything.topics))


class Printer:
    """Writes records to standard output and counts them."""

    def __init__(self, formatter: Formatter, most: int | None) -> None:
        self._formatter = formatter
        self._left = most
        self.printed: dict[TopicPartition, int] = {}
        """The offset after the last record printed of each partition."""

    def print(self, chunk: Chunk) -> bool:
        """Print a chunk's records; False when enough have been printed."""
        out, partition = sys.stdout.buffer, chunk.partition
        try:
            for record in chunk.records():
                out.write(self._formatter(partition, record))
                self.printed[partition] = record.offset + 1
                if self._left is not None:
                    self._left -= 1
                    if self._left == 0:
                        return False
            self.printed[partition] = chunk.next_position
        finally:
            out.flush()
        return True


class _Reader:
    """Chunks of topics, with a group or without."""

    def __init__(self, client: Client, topics: tuple[str, ...], options: ConsumeOptions) -> None:
        self.client = client
        self.topics = topics
        self.options = options
        self.member = Member(client, options.group, topics) if options.group else None
        committed = options.read_committed or options.isolation == "read_committed"
        reset = LATEST if options.place() == Place("time", LATEST) else EARLIEST
        self.consumer = Consumer(client, {}, read_committed=committed, reset=reset)
        self._committed_at = time.monotonic()
        self._told: dict[TopicPartition, ErrorCode] = {}

    def begin(self) -> None:
        """Find where to begin, or join the group."""
        if self.member is None:
            self.consumer.positions = self._start(self._wanted())
        else:
            self._join(self.member)

    def _wanted(self) -> list[TopicPartition]:
        known = run(self.client.leaders(list(self.topics)))
        chosen = {_number(digits) for text in self.options.partitions for digits in text.split(",")}
        wanted = []
        for topic in self.topics:
            there = [partition.partition for partition in known.topics[topic].partitions]
            if missing := sorted(chosen - set(there)):
                raise UsageError(
                    f"--partition {missing[0]}: {topic} has partitions 0 to {max(there)}"
                )
            wanted += [
                TopicPartition(topic, number) for number in there if not chosen or number in chosen
            ]
        return wanted

    def _start(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return run(resolve_places(self.client, self.options.place(), partitions))

    def _join(self, member: Member) -> None:
        """Take part in the group; go on where it left off, else where the flags say."""
        assigned = list(run(member.join()))
        left = run(groups.committed(self.client, member.group, assigned, require_stable=True))
        positions = {
            partition: left[partition].offset for partition in assigned if partition in left
        }
        positions.update(
            self._start([partition for partition in assigned if partition not in positions])
        )
        self.consumer.positions = positions
        self.consumer.high_watermarks.clear()

    def poll(self, printed: dict[TopicPartition, int]) -> list[Chunk]:
        """Fetch the next chunks; commit and rejoin as a member must."""
        if self.member is not None:
            if time.monotonic() - self._committed_at >= COMMIT_SECONDS:
                self._commit(printed)
            if not run(self.member.heartbeat()):
                self._commit(printed)
                printed.clear()
                self._join(self.member)
        return run(self.consumer.poll())

    def tell_failing(self) -> None:
        """Say once of which partitions nothing can be read, and why."""
        failing = self.consumer.failing
        for partition, code in failing.items():
            if self._told.get(partition) is not code:
                note(
                    f"{partition} cannot be read at offset {self.consumer.positions[partition]}"
                    f" [{code.name}]; trying again for {self.client.retry_seconds:g} s"
                )
        self._told = dict(failing)

    def _commit(self, printed: Mapping[TopicPartition, int]) -> None:
        self._committed_at = time.monotonic()
        offsets = {partition: Committed(offset) for partition, offset in printed.items()}
        if self.member is not None and offsets:
            run(self.member.commit(offsets))

    def close(self, printed: Mapping[TopicPartition, int]) -> None:
        """Leave the offsets of what was printed, and the group."""
        if self.member is not None and self.member.member_id:
            self._commit(printed)
            run(self.member.leave())


def _print_all(reader: _Reader, printer: Printer, options: ConsumeOptions) -> None:
    last = time.monotonic()
    while True:
        chunks = reader.poll(printer.printed)
        reader.tell_failing()
        for chunk in chunks:
            last = time.monotonic()
            if not printer.print(chunk):
                return
        if options.until_end and reader.consumer.caught_up():
            return
        if options.seconds is not None and time.monotonic() - last >= options.seconds:
            return


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--partition {text}: must be a number")
    return int(text)


def _format_of(properties: dict[str, str]) -> str:
    """Return the format that Kafka's --property words ask for."""
    switches: dict[str, Callable[[], str]] = {
        "print.timestamp": lambda: "%d",
        "print.partition": lambda: "Partition:%p",
        "print.offset": lambda: "Offset:%o",
        "print.headers": lambda: "%h",
        "print.key": lambda: "%k",
        "print.value": lambda: "%v",
    }
    separator = properties.pop("key.separator", "\\t")
    end = properties.pop("line.separator", "\\n")
    for name, value in properties.items():
        if name not in switches or value not in {"true", "false"}:
            raise UsageError(f"--property {name}={value}: not known here; see --format")
    parts = [
        part()
        for name, part in switches.items()
        if properties.get(name, "true" if name == "print.value" else "false") == "true"
    ]
    return separator.join(parts) + end
