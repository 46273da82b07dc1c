"""`headrace log dump`: print the contents of files of a log directory, Kafka's or Headrace's."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from headrace.logtools.dump import KafkaDump, KafkaOptions, Row, UnknownFile, kind_of
from headrace.logtools.dump import dump as dump_file
from headrace.logtools.dump.as_kafka import MAX_BYTES, MAX_MESSAGE_SIZE
from headrace.logtools.dump.coordinators import MissingKey
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from headrace.posix.disk import RealDisk
from headrace.terminal.broker_options import Json
from headrace.terminal.failure import EXIT_FAILED, CommandError, UsageError
from headrace.terminal.output import note, print_line
from headrace.terminal.record_formats import headers_json, jsonable_line, put_bytes
from headrace.wire.kafka.coordinator_records.offsets_tables import CONSUMER_OFFSETS
from headrace.wire.kafka.coordinator_records.state_tables import SHARE_STATE, TRANSACTION_STATE

Format = Literal["text", "json", "kafka"]
_TABLES = {
    OFFSETS_TOPIC: CONSUMER_OFFSETS,
    TRANSACTIONS_TOPIC: TRANSACTION_STATE,
    SHARE_STATE_TOPIC: SHARE_STATE,
}


@Parameter(name="*")
@dataclass(frozen=True)
class Decoders:
    """DumpLogSegments' flags that choose the decoder of an internal topic's records."""

    offsets_decoder: Annotated[
        bool, Parameter(help="Decode the records as those of __consumer_offsets.")
    ] = False
    transaction_log_decoder: Annotated[
        bool, Parameter(help="Decode the records as those of __transaction_state.")
    ] = False
    share_group_state_decoder: Annotated[
        bool, Parameter(help="Decode the records as those of __share_group_state.")
    ] = False

    def topic(self) -> str | None:
        """Return the topic whose decoder was chosen; None: by the directory's name.

        Raises UsageError.
        """
        given = {
            "--offsets-decoder": OFFSETS_TOPIC if self.offsets_decoder else None,
            "--transaction-log-decoder": (
                TRANSACTIONS_TOPIC if self.transaction_log_decoder else None
            ),
            "--share-group-state-decoder": (
                SHARE_STATE_TOPIC if self.share_group_state_decoder else None
            ),
        }
        chosen = {flag: topic for flag, topic in given.items() if topic is not None}
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} cannot be combined")
        return next(iter(chosen.values()), None)


@Parameter(name="*")
@dataclass(frozen=True)
class KafkaFlags:
    """Further flags of DumpLogSegments."""

    verify_index_only: Annotated[
        bool,
        Parameter(help="--format kafka: check indexes without printing entries."),
    ] = False
    index_sanity_check: Annotated[
        bool,
        Parameter(help="--format kafka: only the checks of a start."),
    ] = False
    skip_record_metadata: Annotated[
        bool, Parameter(help="--format kafka: only keys and values.")
    ] = False
    max_bytes: Annotated[
        int, Parameter(help="--format kafka: the most bytes to read of each segment.")
    ] = MAX_BYTES
    max_message_size: Annotated[
        int, Parameter(help="--format kafka: the largest batch to expect at an index entry.")
    ] = MAX_MESSAGE_SIZE


def dump(
    *files: Annotated[Path, Parameter(help="Files of a log, or directories with them.")],
    files_flag: Annotated[tuple[str, ...], Parameter(name="--files", show=False)] = (),
    records: Annotated[
        bool,
        Parameter(
            name=["-r", "--records", "--print-data-log"],
            help="Also print the records of each batch: keys, values, headers.",
        ),
    ] = False,
    format_: Annotated[
        Format,
        Parameter(
            name="--format",
            show_default=True,
            help="kafka: the output of Kafka's DumpLogSegments, line for line.",
        ),
    ] = "text",
    json: Json = False,
    deep_iteration: Annotated[
        bool,
        Parameter(help="Also print records; kafka: without contents."),
    ] = False,
    decoders: Decoders | None = None,
    kafka: KafkaFlags | None = None,
) -> int | None:
    """Print the contents of segments, indexes, snapshots and checkpoints.

    The file's name decides its format. Checksums are verified; damage is reported with its
    position and makes the command fail, after all other files were printed.
    """
    paths = [*files, *(Path(path) for text in files_flag for path in text.split(",") if path)]
    if not paths:
        raise UsageError("name at least one file")
    topic = None if decoders is None else decoders.topic()
    flags = kafka or KafkaFlags()
    if format_ == "kafka":
        if json:
            raise UsageError("--json and --format kafka cannot be combined")
        options = KafkaOptions(
            print_data_log=records,
            deep_iteration=deep_iteration,
            verify_index_only=flags.verify_index_only,
            index_sanity_check=flags.index_sanity_check,
            skip_record_metadata=flags.skip_record_metadata,
            max_bytes=flags.max_bytes,
            max_message_size=flags.max_message_size,
            tables=None if topic is None else _TABLES[topic],
        )
        return EXIT_FAILED if _print_as_kafka(paths, options) else None
    if flags != KafkaFlags():
        raise UsageError(
            "--verify-index-only, --index-sanity-check, --skip-record-metadata, --max-bytes and"
            " --max-message-size need --format kafka; to check indexes: headrace log verify"
        )
    as_records = records or deep_iteration or topic is not None
    printer = _Printer(records=as_records, json=json or format_ == "json", topic=topic)
    return EXIT_FAILED if printer.print_all(paths) else None


def _expanded(path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield files and whether each was named itself; a directory yields the files in it."""
    if path.is_dir():
        yield from ((file, False) for file in sorted(path.iterdir()) if file.is_file())
    else:
        yield path, True


def _note_nothing(path: Path) -> None:
    note(f"headrace: {path}: contains no log files; pass a partition's directory, or files")


def _print_as_kafka(paths: Iterable[Path], options: KafkaOptions) -> bool:
    """Print as DumpLogSegments does; return whether a file was damaged or a directory empty."""
    kafka = KafkaDump(RealDisk(None), options)
    failed = False
    for path in paths:
        files = [file for file, _ in _expanded(path)]
        if not files:
            _note_nothing(path)
            failed = True
        for file in files:
            failed = not _print_one_as_kafka(kafka, file) or failed
    for line in kafka.remarks():
        note(line)
    return failed


def _print_one_as_kafka(kafka: KafkaDump, path: Path) -> bool:
    """Print one file; return whether no damage was found."""
    if not KafkaDump.knows(path.name):
        print_line(f"Dumping {path}")
        note(f"Ignoring unknown file {path}")
        return True
    try:
        for line in kafka.lines(str(path.absolute()), str(path)):
            print_line(line)
    except (CorruptLogError, MissingKey) as error:
        note(f"headrace: damaged data: {error}")
        return False
    return True


class _Printer:
    """Prints files in Headrace's text or JSON format."""

    def __init__(self, *, records: bool, json: bool, topic: str | None) -> None:
        self._records = records
        self._json = json
        self._topic = topic

    def print_all(self, paths: Iterable[Path]) -> bool:
        """Print files and directories; return whether one was damaged or has no log files."""
        failed = False
        for path in paths:
            known = False
            for file, chosen in _expanded(path):
                try:
                    self._print_file(file)
                except CorruptLogError as error:
                    note(f"headrace: damaged data: {error}")
                    failed = True
                except UnknownFile as error:
                    # A directory may contain other files; a file that was named must be a log file.
                    if chosen:
                        raise CommandError(str(error), EXIT_FAILED) from None
                    continue
                known = True
            if not known:
                _note_nothing(path)
                failed = True
        return failed

    def _print_file(self, path: Path) -> None:
        # Absolute, as the topic is in the directory's name, also for `log dump 0….log` inside it.
        name = str(path.absolute())
        kind = kind_of(name)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if not self._json:
                print_line(f"{path} ({kind}, {size} bytes)")
            rows = dump_file(
                name,
                size,
                lambda position, count: os.pread(descriptor, count, position),
                records=self._records,
                topic=self._topic,
            )
            for row in rows:
                if self._json:
                    print_line(jsonable_line({"file": str(path), **_for_scripts(row)}))
                else:
                    _print_row(row)
        finally:
            os.close(descriptor)


def _for_scripts(row: Row) -> Row:
    """Return a row with key, value and headers in the form of every command's JSON."""
    if "headers" not in row:
        return row
    shown: dict[str, object] = {}
    for name, value in row.items():
        if name == "headers" and isinstance(value, Iterable):
            shown[name] = headers_json(value)
        elif name in {"key", "value"} and isinstance(value, bytes | None):
            put_bytes(shown, name, value)
        else:
            shown[name] = value
    return shown


def _print_row(row: Row) -> None:
    """Print a row as `name: value` pairs on one line; records are indented below their batch."""
    indent = "  | " if "offset" in row and "headers" in row else ""
    pairs = (f"{name}: {_shown(value)}" for name, value in row.items() if value is not None)
    print_line(indent + "  ".join(pairs))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if value.isprintable() else jsonable_line(value)
    if isinstance(value, int):
        return str(value)
    return jsonable_line(value)
