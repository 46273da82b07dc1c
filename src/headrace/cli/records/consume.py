"""`headrace consume`: print records of topics."""

import gc
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from headrace.cli.records.consume_printer import DamagedBytes, Printer
from headrace.cli.records.consume_reader import Reader, ReadOptions
from headrace.cli.records.topic_awaiting import await_topics
from headrace.cli.records.typed_values import (
    DDL_HELP,
    ValueMode,
    typed_formatter,
    typed_values,
)
from headrace.client.calls.offsets import EARLIEST, LATEST
from headrace.terminal.broker_options import BrokerOptions, Json, check_seconds, pairs
from headrace.terminal.failure import UsageError
from headrace.terminal.offset_positions import Place, parse_place
from headrace.terminal.permission_needs import Need, needing
from headrace.terminal.record_formats import Formatter, json_formatter, text_formatter

if TYPE_CHECKING:
    from collections.abc import Callable

_GC_THRESHOLD = 50_000
"""Allocations between garbage collections.

Records on their way to the printer form no cycles; the default threshold cost a tenth of the time.
"""


@Parameter(name="*")
@dataclass(frozen=True)
class ConsumeOptions:
    """Options of `headrace consume` that choose the records."""

    from_beginning: Annotated[
        bool,
        Parameter(help="Start at the first offset, not at the end."),
    ] = False
    offset: Annotated[
        str | None,
        Parameter(
            name=["-o", "--offset"],
            allow_leading_hyphen=True,
            help="start, end, a number, -N (the last N of each partition), @time, @-1h30m.",
        ),
    ] = None
    partitions: Annotated[
        tuple[str, ...],
        Parameter(name=["-p", "--partition", "--partitions"], help="Only these."),
    ] = ()
    max_messages: Annotated[
        int | None,
        Parameter(
            name=["-n", "--max-messages", "--num", "-c"], help="Stop after this many records."
        ),
    ] = None
    group: Annotated[
        str | None,
        Parameter(
            name=["-g", "--group"], help="Consume as a member of this group, and commit offsets."
        ),
    ] = None
    share: Annotated[
        str | None,
        Parameter(help="Consume as a member of this share group, and accept printed records."),
    ] = None
    timeout: Annotated[
        float | None,
        Parameter(
            help="Stop if no record arrives for this many seconds, also if a topic does not exist."
        ),
    ] = None
    timeout_ms: Annotated[int | None, Parameter(show=False)] = None
    until_end: Annotated[
        bool,
        Parameter(name=["-e", "--until-end", "--exit-eof"], help="Stop at the end offsets."),
    ] = False
    isolation: Annotated[
        Literal["read_committed", "read_uncommitted"],
        Parameter(name="--isolation-level", help="As --read-committed, by Kafka's name."),
    ] = "read_uncommitted"
    read_committed: Annotated[
        bool,
        Parameter(help="Only records of committed transactions."),
    ] = False

    skip_damaged: Annotated[
        bool,
        Parameter(help="Skip records that are damaged on the broker's disk, and report them."),
    ] = False

    @property
    def seconds(self) -> float | None:
        """Seconds without a record after which the command stops; None: no limit."""
        return self.timeout_ms / 1000 if self.timeout_ms is not None else self.timeout

    def check(self) -> None:
        """Raise UsageError if options of `headrace consume` contradict each other."""
        if self.share is not None:
            self._check_share(self.share)
        if self.group and self.partitions:
            raise UsageError(
                "--group and --partition cannot be combined: the group assigns partitions"
            )
        if self.from_beginning and self.offset is not None:
            raise UsageError("--from-beginning and --offset cannot be combined")
        if self.seconds is not None:
            check_seconds("--timeout", self.seconds)
        if self.max_messages is not None and self.max_messages < 1:
            raise UsageError(f"--max-messages {self.max_messages}: must be at least 1")

    def _check_share(self, group: str) -> None:
        start = f"headrace config set group {group} share.auto.offset.reset=earliest"
        alone = {
            "--group": (bool(self.group), "cannot be combined"),
            "--partition": (bool(self.partitions), "the group assigns partitions"),
            "--from-beginning": (
                self.from_beginning,
                "a group starts at its committed offsets; a new one starts at the first offset"
                f" after: {start}",
            ),
            "--offset": (
                self.offset is not None,
                "a share group has its own start offset; move it with headrace share"
                f" reset {group}",
            ),
            "--until-end": (
                self.until_end,
                "other members consume concurrently; --timeout ends if no record arrives",
            ),
            "--skip-damaged": (self.skip_damaged, "the group delivers records in its own order"),
            "--read-committed": (
                self.committed_only,
                f"is a setting of the group: headrace config set group {group}"
                " share.isolation.level=read_committed",
            ),
        }
        for flag, (is_given, why) in alone.items():
            if is_given:
                raise UsageError(f"--share and {flag}: {why}")

    @property
    def committed_only(self) -> bool:
        """Whether only records of committed transactions are read (read_committed)."""
        return self.read_committed or self.isolation == "read_committed"

    def outage_seconds(self) -> float | None:
        """Return how long to wait for unreachable brokers; None: as long as for other errors."""
        if self.until_end:
            return None
        return float("inf") if self.seconds is None else self.seconds

    def chosen(self) -> frozenset[int]:
        """Return the partitions to read; empty: all of them. Raises UsageError."""
        return frozenset(_number(digits) for text in self.partitions for digits in text.split(","))

    def place(self) -> Place:
        """Return the position to start at. Raises UsageError."""
        if self.offset is not None:
            return parse_place(self.offset, "--offset")
        return Place("time", EARLIEST if self.from_beginning else LATEST)


@Parameter(name="*")
@dataclass(frozen=True)
class PrintOptions:
    """Options of `headrace consume` that choose the format of a printed record."""

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
        Parameter(name="--property", help="print.key=true and similar, as in Kafka's command."),
    ] = ()
    formatter: Annotated[
        str | None,
        Parameter(
            help="Decode the coordinators' records: offsets, group-metadata, consumer-groups,"
            " share-groups of __consumer_offsets, transactions of __transaction_state,"
            " share-state of __share_group_state."
        ),
    ] = None
    value_schema: Annotated[str | None, Parameter(help=DDL_HELP)] = None
    mode: ValueMode = None

    def formatter_for(self, *, json: bool) -> Formatter:
        """Return the formatter from records to the bytes to print. Raises UsageError."""
        if self.value_schema is None:
            if self.mode is not None:
                raise UsageError("--mode: only with --value-schema")
            return self._plain_formatter(json=json)
        if self.formatter is not None:
            raise UsageError("--value-schema and --formatter cannot be combined")
        plain = self._plain_formatter(json=json)
        typed = typed_values(self.value_schema, self.mode, ["offset"])
        return typed_formatter(typed, None if json else plain)

    def _plain_formatter(self, *, json: bool) -> Formatter:
        if self.formatter is not None:
            from headrace.cli.records.coordinator_formats import coordinator_formatter

            return coordinator_formatter(self.formatter)
        if json:
            if self.format is not None:
                raise UsageError("--json and --format cannot be combined")
            return json_formatter()
        text = self.format
        if text is None:
            text = _format_of(pairs("--property", self.properties))
        return text_formatter(text)


def consume(
    *topics: Annotated[str, Parameter(help="Topics to consume.")],
    options: ConsumeOptions = ConsumeOptions(),
    printing: PrintOptions = PrintOptions(),
    topic_flag: Annotated[tuple[str, ...], Parameter(name="--topic", show=False)] = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Print the records of topics, and new ones as they arrive."""
    names = topics + topic_flag
    if not names:
        raise UsageError("name at least one topic")
    options.check()
    printer = Printer(printing.formatter_for(json=json), options.max_messages)
    gc.set_threshold(_GC_THRESHOLD)
    # Like Ctrl-C: a group member commits its offsets and leaves the group at once.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    needs = [Need("read", "topic", name) for name in names]
    if group := options.group or options.share:
        needs.append(Need("read", "group", group))
    with cluster.client() as client, needing(client, needs):
        new = await_topics(client, names, wait=not options.until_end, seconds=options.seconds)
        if options.share is not None:
            from headrace.cli.records.consume_share import ShareReader, consume_share

            consume_share(
                ShareReader(client, names, options.share, options.outage_seconds()),
                printer,
                options.seconds,
            )
            return
        reader = Reader(
            client,
            names,
            ReadOptions(
                options.place(),
                options.chosen(),
                options.group,
                read_committed=options.committed_only,
                skip_damaged=options.skip_damaged,
                new_topics=new,
            ),
        )
        try:
            reader.begin(options.outage_seconds())
            _print_all(reader, printer, options)
        finally:
            reader.close(printer.printed)


def _print_all(reader: Reader, printer: Printer, options: ConsumeOptions) -> None:
    last = time.monotonic()
    while True:
        chunks = reader.poll(printer.printed)
        for chunk in chunks:
            last = time.monotonic()
            try:
                if not printer.print(chunk):
                    return
            except DamagedBytes as met:
                reader.met_damage(met.partition, met.offset, met.error)
        reader.look_at_failures()
        if options.until_end and reader.consumer.caught_up():
            return
        if options.seconds is not None and time.monotonic() - last >= options.seconds:
            return


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--partition {text}: must be a number")
    return int(text)


def _format_of(properties: dict[str, str]) -> str:
    """Return the --format text for Kafka's --property options. Raises UsageError."""
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
            raise UsageError(f"--property {name}={value}: not supported; see --format")
    parts = [
        part()
        for name, part in switches.items()
        if properties.get(name, "true" if name == "print.value" else "false") == "true"
    ]
    return separator.join(parts) + end
