"""`headrace group`: list, describe, seek, delete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

from headrace.cli.broker_options import BrokerOptions, Json
from headrace.cli.failure import CommandError, UsageError, not_found
from headrace.cli.offset_positions import Place, parse_place, resolve_places
from headrace.cli.output import counted, note, print_json, print_line, print_table
from headrace.cli.several import describe_each, do_to_each
from headrace.client import groups
from headrace.client.client import Client
from headrace.client.groups import Committed, DescribedGroup, GroupMember
from headrace.client.metadata import Metadata
from headrace.client.offsets import LATEST, list_offsets
from headrace.client.sync import run
from headrace.model.nouns import TopicPartition

app = App(
    name="group",
    help="List, describe, seek and delete consumer groups.",
    default_parameter=Parameter(show_default=False, negative=()),
)

GroupFlag = Annotated[tuple[str, ...], Parameter(name="--group", show=False, negative=())]


@app.command(name="list", alias="ls")
def list_(*, json: Json = False, cluster: BrokerOptions = BrokerOptions()) -> None:  # noqa: B008
    """List groups.

    For example: headrace group list --json
    """
    with cluster.client() as client:
        listed = run(groups.list_groups(client))
    if json:
        print_json(
            [
                {
                    "group": group.group,
                    "state": group.state,
                    "protocol_type": group.protocol_type,
                    "type": group.type or None,
                }
                for group in listed
            ]
        )
    elif not listed:
        note("no groups")
    else:
        print_table(
            ["GROUP", "STATE", "PROTOCOL", "TYPE"],
            [
                [group.group, group.state, group.protocol_type or None, group.type or None]
                for group in listed
            ],
        )


@dataclass(frozen=True)
class _Row:
    partition: TopicPartition
    committed: int | None
    end: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """Records between what the group has committed and the end."""
        if self.committed is None or self.end is None:
            return None
        return max(self.end - self.committed, 0)


@app.command
def describe(
    *names: str,
    members: Annotated[
        bool, Parameter(name=["-m", "--members"], negative=(), help="Who reads what.")
    ] = False,
    group: GroupFlag = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Show groups' partitions: committed offset, end, lag, member.

    The lag of a partition without a committed offset is not known (-): where the group would begin
    is for its members to say. For example: headrace group describe billing --members
    """
    wanted = names + group
    if not wanted:
        raise UsageError("name at least one group")
    with cluster.client() as client:
        return describe_each(
            "group",
            wanted,
            lambda name: _describe(client, name),
            lambda found: _print_group(*found, members=members),
            lambda found: _json(*found),
            json=json,
        )


def _describe(client: Client, name: str) -> tuple[DescribedGroup, list[_Row]]:
    described = run(groups.describe_group(client, name))
    offsets = run(groups.committed(client, name))
    if not groups.exists(described, offsets):
        raise not_found(
            "group", name, [partition.group for partition in run(groups.list_groups(client))]
        )
    readers = {partition: member for member in described.members for partition in member.assignment}
    partitions = sorted({*offsets, *readers})
    ends = _ends(client, partitions)
    rows = [
        _Row(
            partition,
            offsets[partition].offset if partition in offsets else None,
            ends.get(partition),
            readers.get(partition),
        )
        for partition in partitions
    ]
    return described, rows


def _ends(client: Client, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """End offsets of those partitions that still exist."""
    known = run(client.metadata(sorted({partition.topic for partition in partitions})))
    there = [partition for partition in partitions if _exists(known, partition)]
    ends = run(list_offsets(client, dict.fromkeys(there, LATEST)))
    return {partition: at.offset for partition, at in ends.items()}


def _exists(known: Metadata, wanted: TopicPartition) -> bool:
    topic = known.topics.get(wanted.topic)
    return (
        topic is not None
        and not topic.error_code
        and any(partition.partition == wanted.partition for partition in topic.partitions)
    )


def _json(described: DescribedGroup, rows: list[_Row]) -> dict[str, object]:
    return {
        "group": described.group,
        "state": described.state,
        "protocol": described.protocol,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": [part._asdict() for part in member.assignment],
            }
            for member in described.members
        ],
        "lag": _lag(rows),
        "partitions": [
            {
                "topic": row.partition.topic,
                "partition": row.partition.partition,
                "committed_offset": row.committed,
                "end_offset": row.end,
                "lag": row.lag,
                "member_id": row.member and row.member.member_id,
            }
            for row in rows
        ],
    }


def _lag(rows: Sequence[_Row]) -> int | None:
    """Return how much is waiting in all; None where that is not known of every partition."""
    lags = [row.lag for row in rows]
    return None if None in lags else sum(lag for lag in lags if lag is not None)


def _lag_words(rows: Sequence[_Row]) -> str:
    unknown = sum(row.lag is None for row in rows)
    if not unknown:
        return f"lag {_lag(rows)}"
    known = sum(row.lag for row in rows if row.lag is not None)
    of = counted(unknown, "partition")
    return "lag unknown" if unknown == len(rows) else f"lag {known}, unknown of {of}"


def _print_group(described: DescribedGroup, rows: list[_Row], *, members: bool) -> None:
    protocol = f", {described.protocol}" if described.protocol else ""
    print_line(
        f"{described.group}: {described.state}{protocol},"
        f" {counted(len(described.members), 'member')}, {_lag_words(rows)}"
    )
    if members:
        print_table(
            ["MEMBER", "CLIENT", "HOST", "PARTITIONS"],
            [
                [
                    member.member_id,
                    member.client_id,
                    member.host,
                    " ".join(map(str, member.assignment)),
                ]
                for member in described.members
            ],
        )
        return
    if not rows:
        return
    print_table(
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT"],
        [
            [
                row.partition.topic,
                row.partition.partition,
                row.committed,
                row.end,
                row.lag,
                row.member and row.member.member_id,
                row.member and row.member.client_id,
            ]
            for row in rows
        ],
    )


@app.command(alias="reset-offsets")
def seek(
    name: str,
    *,
    to: Annotated[
        str,
        Parameter(
            name=["--to", "-t"],
            allow_leading_hyphen=True,
            help="start, end, a number, +N or -N from where it is, @time.",
        ),
    ],
    topics: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--topics", "--topic"],
            negative=(),
            help="Only these: topic or topic:0,1; may be given again.",
        ),
    ] = (),
    dry_run: Annotated[
        bool, Parameter(name=["-n", "--dry-run"], negative=(), help="Only show what would be done.")
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Move a group's offsets; it must have no members.

    For example: headrace group seek billing --to @2026-11-20T12:00 --topics orders:0,1 --dry-run
    """
    place = parse_place(to, "--to")
    with cluster.client() as client:
        offsets = run(groups.committed(client, name))
        partitions = _chosen(client, name, topics, offsets)
        if not dry_run:
            _refuse_members(client, name)
        current = {partition: at.offset for partition, at in offsets.items()}
        moved = _moved(client, place, partitions, current)
        if not dry_run:
            commits = {partition: Committed(offset) for partition, offset in moved.items()}
            run(groups.commit(client, name, commits))
    rows = [(*partition, current.get(partition), moved[partition]) for partition in sorted(moved)]
    if json:
        print_json(
            {
                "group": name,
                "dry_run": dry_run,
                "partitions": [
                    dict(zip(("topic", "partition", "from_offset", "to_offset"), row, strict=True))
                    for row in rows
                ],
            }
        )
        return
    print_table(
        ["TOPIC", "PARTITION", "FROM", "TO"],
        rows,
    )
    if dry_run:
        note("nothing was changed: --dry-run")


def _moved(
    client: Client,
    place: Place,
    partitions: Sequence[TopicPartition],
    current: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    return run(resolve_places(client, place, partitions, current, tell=note))


def _refuse_members(client: Client, name: str) -> None:
    described = run(groups.describe_group(client, name))
    if described.members:
        raise CommandError(
            f"group {name} has {len(described.members)} members; stop them first, or they would"
            " go on from where they are"
        )


def _chosen(
    client: Client,
    name: str,
    topics: Sequence[str],
    offsets: Mapping[TopicPartition, Committed],
) -> list[TopicPartition]:
    """Return the partitions to move: those named, or all the group has offsets for."""
    if not topics:
        if not offsets:
            known = [group.group for group in run(groups.list_groups(client))]
            if name not in known:
                raise not_found("group", name, known)
            raise UsageError(f"group {name} has no offsets yet; name topics with --topics")
        there = run(client.metadata(sorted({partition.topic for partition in offsets})))
        return [partition for partition in sorted(offsets) if _exists(there, partition)]
    everything = run(client.metadata())
    chosen = []
    for text in topics:
        topic, _, numbers = text.partition(":")
        if topic not in everything.topics:
            raise not_found("topic", topic, sorted(everything.topics))
        all_there = [partition.partition for partition in everything.topics[topic].partitions]
        wanted = [_number(text, digits) for digits in numbers.split(",")] if numbers else all_there
        if missing := sorted(set(wanted) - set(all_there)):
            raise UsageError(f"--topics {text}: there is no partition {missing[0]}")
        chosen += [TopicPartition(topic, number) for number in wanted]
    return sorted(set(chosen))


def _number(text: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise UsageError(f"--topics {text}: must be topic or topic:0,1")
    return int(digits)


@app.command(alias="rm")
def delete(
    *names: str,
    group: GroupFlag = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Delete groups without members, and their offsets.

    For example: headrace group delete billing
    """
    wanted = names + group
    if not wanted:
        raise UsageError("name at least one group")
    with cluster.client() as client:
        known = [listed.group for listed in run(groups.list_groups(client))]

        def act(name: str) -> tuple[bool, str]:
            if name not in known:
                raise not_found("group", name, known)
            run(groups.delete_group(client, name))
            return True, f"deleted {name}"

        return do_to_each("group", wanted, "deleted", act, json=json)
