"""`headrace topic offsets` and `trim`: first and end offsets, deletion of the oldest records."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from cyclopts import Parameter

from headrace.client.admin.delete_records import Started, delete_records
from headrace.client.calls.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    OffsetAt,
    list_offsets,
)
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm
from headrace.terminal.failure import EXIT_FAILED, UsageError, error_json, line_of
from headrace.terminal.name_patterns import Regex, some_matching
from headrace.terminal.offset_positions import Place, parse_place, resolve_places
from headrace.terminal.output import counted, note, note_error, print_json, print_table
from headrace.terminal.partition_choice import chosen_partitions

_NEWEST = "max-timestamp"
Topics = Annotated[str, Parameter(help="topic, or topic:0,1 for some of its partitions.")]


def offsets(
    *topics: Topics,
    at: Annotated[
        str | None,
        Parameter(
            name=["--at", "--time"],
            allow_leading_hyphen=True,
            help=f"And the first offset at or after this time: @time, or {_NEWEST}.",
        ),
    ] = None,
    regex: Regex = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> None:
    """Show the first and end offsets of partitions, and the offset for a time.

    For example: headrace topic offsets orders --at @2026-11-20T12:00; headrace topic offsets
    orders:0,1
    """
    time = None if at is None else _time(at)
    with cluster.client() as client:
        partitions = _partitions(client, topics, regex=regex)
        starts = run(list_offsets(client, dict.fromkeys(partitions, EARLIEST)))
        ends = run(list_offsets(client, dict.fromkeys(partitions, LATEST)))
        found: Mapping[TopicPartition, OffsetAt] = {}
        if time is not None:
            found = run(list_offsets(client, dict.fromkeys(partitions, time)))
    rows = [
        [*partition, starts[partition].offset, ends[partition].offset, *_found(found, partition)]
        for partition in partitions
    ]
    names = ["topic", "partition", "start_offset", "end_offset", "offset", "timestamp"]
    if json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    shown = 4 if time is None else 6
    columns = ["TOPIC", "PARTITION", "START", "END", "OFFSET", "TIMESTAMP"]
    print_table(columns[:shown], [row[:shown] for row in rows])
    if time is not None and any(row[4] is None for row in rows):
        note("-: no record at or after that time")


def _found(
    found: Mapping[TopicPartition, OffsetAt], partition: TopicPartition
) -> tuple[int | None, int | None]:
    at = found.get(partition)
    return (None, None) if at is None or at.offset < 0 else (at.offset, at.timestamp)


def _time(text: str) -> int:
    """Return the timestamp of `@time`, with or without its @, for ListOffsets.

    Raises UsageError.
    """
    if text == _NEWEST:
        return MAX_TIMESTAMP
    words = {"start", "earliest", "end", "latest"}
    place = parse_place(text if text.startswith("@") or text in words else f"@{text}", "--at")
    return place.number


def trim(
    *topics: Topics,
    to: Annotated[
        str,
        Parameter(
            name=["--to", "-o", "--offset"],
            allow_leading_hyphen=True,
            help="New first offset: a number, end, @time, -N (keep the last N), +N (delete N).",
        ),
    ],
    regex: Regex = False,
    yes: Yes = False,
    dry_run: Annotated[
        bool, Parameter(name=["-n", "--dry-run"], help="Only show what would be done.")
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Delete the oldest records of partitions permanently, up to an offset or a time.

    Groups' committed offsets are not checked. -r never selects internal topics. For example:
    headrace topic trim orders --to @2026-11-20T12:00 --dry-run; headrace topic trim
    orders:0 --to 1000 --yes; headrace topic trim -r 'trial-.*' --to end
    """
    place = parse_place(to, "--to")
    with cluster.client() as client:
        partitions = _partitions(client, topics, regex=regex, internal=not regex)
        starts = run(list_offsets(client, dict.fromkeys(partitions, EARLIEST)))
        ends = run(list_offsets(client, dict.fromkeys(partitions, LATEST)))
        _refuse_past_end(place, starts, ends)
        before = {
            partition: offset
            for partition, offset in run(resolve_places(client, place, partitions)).items()
            if offset > starts[partition].offset
        }
        count = sum(offset - starts[partition].offset for partition, offset in before.items())
        done: Started = {}
        if before and not dry_run:
            what = counted(len(before), "partition")
            if regex:
                what += f" of {', '.join(sorted({partition.topic for partition in before}))}"
            confirm(f"Delete {counted(count, 'offset')} of {what} permanently?", yes=yes)
            done = run(delete_records(client, before))
    outcomes = {partition: done.get(partition, before.get(partition)) for partition in partitions}
    rows = [
        (partition, starts[partition].offset, ends[partition].offset, outcomes[partition])
        for partition in partitions
    ]
    return _print_trimmed(rows, dry_run=dry_run, json=json)


_Row = tuple[TopicPartition, int, int, int | ApiError | None]
"""A partition, its first and end offset before, and its new first offset, or None: unchanged."""


def _print_trimmed(rows: Sequence[_Row], *, dry_run: bool, json: bool) -> int:
    failed = [outcome for *_, outcome in rows if isinstance(outcome, ApiError)]
    shown = [
        (partition, start, start if outcome is None or isinstance(outcome, ApiError) else outcome,
         end, outcome)
        for partition, start, end, outcome in rows
    ]  # fmt: skip
    if json:
        print_json(
            {
                "dry_run": dry_run,
                "partitions": [
                    {
                        **partition._asdict(),
                        "from_offset": start,
                        "to_offset": to,
                        "end_offset": end,
                        "error": error_json(outcome) if isinstance(outcome, ApiError) else None,
                    }
                    for partition, start, to, end, outcome in shown
                ],
            }
        )
    else:
        print_table(
            ["TOPIC", "PARTITION", "FROM", "TO", "END"],
            [(*partition, start, to, end) for partition, start, to, end, _ in shown],
        )
        for failure in failed:
            note_error(line_of(failure)[0])
    if dry_run:
        note("nothing was changed: --dry-run")
    elif all(outcome is None for *_, outcome in rows):
        note("no records before that offset: nothing was deleted")
    return EXIT_FAILED if failed else 0


def _refuse_past_end(
    place: Place,
    starts: Mapping[TopicPartition, OffsetAt],
    ends: Mapping[TopicPartition, OffsetAt],
) -> None:
    """Raise UsageError for an offset beyond the end: as a typing error it would delete all."""
    for partition, end in ends.items():
        base = starts[partition].offset if place.kind == "ahead" else 0
        if place.kind in {"offset", "ahead"} and base + place.number > end.offset:
            raise UsageError(
                f"--to: the end offset of {partition} is {end.offset}; to delete all records pass"
                " --to end"
            )


def _partitions(
    client: Client, topics: Sequence[str], *, regex: bool, internal: bool = True
) -> list[TopicPartition]:
    """Return the partitions that are named, or of topics whose names match. Raises UsageError.

    `internal`: whether internal topics may match.
    """
    if not topics:
        raise UsageError("name at least one topic")
    known = run(client.metadata())
    if not regex:
        return chosen_partitions(known, topics, "")
    may = [name for name, topic in known.topics.items() if internal or not topic.internal]
    return chosen_partitions(known, some_matching(topics, may), "")
