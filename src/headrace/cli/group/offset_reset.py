"""`headrace group seek`, `reset` and `delete-offsets`: change a group's committed offsets."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.group.reset_targets import ResetTarget
from headrace.client.admin import groups
from headrace.client.admin.groups import Committed
from headrace.client.calls.metadata import Metadata
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.nouns import TopicPartition
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm
from headrace.terminal.failure import CommandError, UsageError, not_found
from headrace.terminal.offset_positions import (
    Place,
    parse_place,
    plan_lines,
    read_plan,
    resolve_places,
)
from headrace.terminal.output import Cell, counted, note, print_json, print_line, print_table
from headrace.terminal.partition_choice import chosen_partitions

Topics = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--topics", "--topic"], help="Only these: topic or topic:0,1; may be given again."
    ),
]
DryRun = Annotated[bool, Parameter(name=["-n", "--dry-run"], help="Only show what would be done.")]


def seek(
    name: str,
    *,
    to: Annotated[
        str,
        Parameter(
            name=["--to", "-t"],
            allow_leading_hyphen=True,
            help="start, end, a number, +N or -N relative to the current offset, @time.",
        ),
    ],
    topics: Topics = (),
    dry_run: DryRun = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Move the offsets of a group without members.

    For example: headrace group seek billing --to @2026-11-20T12:00 --topics orders:0,1 --dry-run
    """
    place = parse_place(to, "--to")
    with cluster.client() as client:
        current = _current(client, name)
        partitions = _chosen(client, name, topics, current)
        moved = _resolved(client, place, partitions, current)
        if not dry_run:
            _move(client, name, moved)
    show_moves(name, _rows(current, moved), dry_run=dry_run, json=json)
    if dry_run and not json:
        note("nothing was changed: --dry-run")


def reset(
    name: Annotated[str | None, Parameter(help="The group.")] = None,
    *,
    target: ResetTarget = ResetTarget(),  # noqa: B008
    topics: Topics = (),
    all_topics: Annotated[
        bool, Parameter(help="All topics with committed offsets of the group.")
    ] = False,
    execute: Annotated[bool, Parameter(help="Apply the change; without it, only show it.")] = (
        False
    ),
    dry_run: DryRun = False,
    export: Annotated[bool, Parameter(help="Print CSV for --from-file.")] = False,
    group: Annotated[str | None, Parameter(show=False)] = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Move a group's offsets with the flags of kafka-consumer-groups; only shown without --execute.

    The group must have no members. headrace group seek is shorter. For example:
    headrace group reset billing --to-earliest --topic orders:0,1 --execute; headrace group reset
    billing --by-duration PT1H --all-topics
    """
    name = name or group
    if name is None:
        raise UsageError("name the group")
    target.check()
    if execute and dry_run:
        raise UsageError("--execute and --dry-run cannot be combined")
    if bool(topics) == all_topics and target.from_file is None:
        raise UsageError("pass the partitions: --topic topic:0,1, or --all-topics")
    if target.from_file is not None and (topics or all_topics):
        raise UsageError("--from-file contains the partitions; omit --topic and --all-topics")
    with cluster.client() as client:
        current = _current(client, name)
        moved = _targets(client, name, target, topics, current)
        if execute:
            _move(client, name, moved)
    if export:
        for line in plan_lines(name, moved):
            print_line(line)
    else:
        show_moves(name, _rows(current, moved), dry_run=not execute, json=json)
    if not execute and not json:
        note("nothing was changed: pass --execute to apply")


def delete_offsets(
    name: str,
    *,
    topics: Topics = (),
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Delete a group's committed offsets for topics that none of its members consumes.

    For example: headrace group delete-offsets billing --topic orders --yes
    """
    if not topics:
        raise UsageError("pass the offsets to delete: --topic topic or topic:0,1")
    with cluster.client() as client:
        current = _current(client, name)
        if not current:
            _refuse_unknown(client, name)
        known = run(client.metadata())
        wanted = chosen_partitions(known, topics, "--topic")
        gone = {partition: current[partition] for partition in wanted if partition in current}
        if gone and not dry_run:
            confirm(f"Delete {counted(len(gone), 'offset')} of group {name}?", yes=yes)
            run(groups.delete_offsets(client, name, gone))
    if json:
        print_json(
            {
                "group": name,
                "dry_run": dry_run,
                "partitions": [
                    {**partition._asdict(), "offset": offset} for partition, offset in gone.items()
                ],
            }
        )
        return
    if not gone:
        note(f"group {name} has no offsets there: nothing was changed")
        return
    print_table(
        ["TOPIC", "PARTITION", "COMMITTED"],
        [(*partition, offset) for partition, offset in gone.items()],
    )
    if dry_run:
        note("nothing was changed: --dry-run")


def _current(client: Client, name: str) -> dict[TopicPartition, int]:
    return {partition: at.offset for partition, at in run(groups.committed(client, name)).items()}


def _targets(
    client: Client,
    name: str,
    target: ResetTarget,
    topics: Sequence[str],
    current: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if target.from_file is None:
        partitions = _chosen(client, name, topics, current)
        return _resolved(client, target.place(), partitions, current)
    wanted: dict[TopicPartition, int] = {}
    plan = read_plan(target.from_file, name)
    _check_partitions(run(client.metadata()), plan)
    for partition, offset in plan.items():
        wanted.update(_resolved(client, Place("offset", offset), [partition], current))
    return wanted


def _check_partitions(known: Metadata, plan: Mapping[TopicPartition, int]) -> None:
    for partition in plan:
        if not known.has(partition):
            raise UsageError(f"--from-file: there is no partition {partition}")


def _resolved(
    client: Client,
    place: Place,
    partitions: Sequence[TopicPartition],
    current: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    return run(resolve_places(client, place, partitions, current, tell=note))


def _move(client: Client, name: str, wanted: Mapping[TopicPartition, int]) -> None:
    """Commit the offsets for the group; CommandError if it has members."""
    described = run(groups.describe_group(client, name))
    if described.members:
        raise CommandError(
            f"group {name} has {counted(len(described.members), 'member')}; stop them first,"
            " because they would continue from their own positions"
        )
    commits = {partition: Committed(offset) for partition, offset in wanted.items()}
    run(groups.commit(client, name, commits))


def _rows(
    current: Mapping[TopicPartition, int], moved: Mapping[TopicPartition, int]
) -> list[tuple[Cell, ...]]:
    return [(*partition, current.get(partition), moved[partition]) for partition in sorted(moved)]


def show_moves(name: str, rows: Sequence[tuple[Cell, ...]], *, dry_run: bool, json: bool) -> None:
    """Print the moves of a group: topic, partition, offset before and after."""
    if not json:
        print_table(["TOPIC", "PARTITION", "FROM", "TO"], rows)
        return
    names = ("topic", "partition", "from_offset", "to_offset")
    partitions = [dict(zip(names, row, strict=True)) for row in rows]
    print_json({"group": name, "dry_run": dry_run, "partitions": partitions})


def _chosen(
    client: Client,
    name: str,
    topics: Sequence[str],
    current: Mapping[TopicPartition, int],
) -> list[TopicPartition]:
    """Return the partitions to move: those named, or all with a committed offset."""
    if topics:
        return chosen_partitions(run(client.metadata()), topics, "--topics")
    if not current:
        _refuse_unknown(client, name)
        raise UsageError(f"group {name} has no offsets yet; pass topics with --topics")
    there = run(client.metadata(sorted({partition.topic for partition in current})))
    return [partition for partition in sorted(current) if there.has(partition)]


def _refuse_unknown(client: Client, name: str) -> None:
    known = [group.group for group in run(groups.list_groups(client))]
    if name not in known:
        raise not_found("group", name, known)
