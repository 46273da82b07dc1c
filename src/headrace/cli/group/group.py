"""`headrace group`: list, describe and delete; `offset_reset` has the commands on offsets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

from headrace.cli.group.offset_reset import delete_offsets, reset, seek
from headrace.client.admin import groups
from headrace.client.admin.groups import DescribedGroup, GroupMember
from headrace.client.calls.offsets import LATEST, list_offsets
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.nouns import TopicPartition
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm_on_terminal
from headrace.terminal.failure import UsageError, not_found
from headrace.terminal.output import counted, print_line, print_list, print_table
from headrace.terminal.per_name_outcomes import describe_each, do_to_each

app = App(name="group", help="List, describe, seek, reset and delete consumer groups.")

app.command(seek)
app.command(reset, alias="reset-offsets")
app.command(delete_offsets, alias="offset-delete")

GroupFlag = Annotated[tuple[str, ...], Parameter(name="--group", show=False)]


@app.command(name="list", alias="ls")
def list_(*, json: Json = False, cluster: BrokerOptions = BrokerOptions()) -> None:  # noqa: B008
    """List groups.

    For example: headrace group list --json
    """
    with cluster.client() as client:
        listed = run(groups.list_groups(client))
    found = [
        {
            "group": group.group,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "type": group.type or None,
        }
        for group in listed
    ]
    columns = ["GROUP", "STATE", "PROTOCOL", "TYPE"]
    rows = (
        (group.group, group.state, group.protocol_type or None, group.type or None)
        for group in listed
    )
    print_list(found, columns, rows, none="no groups", json=json)


@dataclass(frozen=True)
class _Row:
    """A partition of a group: committed offset, end offset and member, None where unknown."""

    partition: TopicPartition
    committed: int | None
    end: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """Offsets between the committed offset and the end; None if one is unknown."""
        if self.committed is None or self.end is None:
            return None
        return max(self.end - self.committed, 0)


@app.command
def describe(
    *names: str,
    members: Annotated[
        bool,
        Parameter(name=["-m", "--members"], help="Show the members' assignments."),
    ] = False,
    group: GroupFlag = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Show groups' partitions: committed offset, end offset, lag, member.

    The lag of a partition without a committed offset is unknown (-), because the members decide
    where the group starts. For example: headrace group describe billing --members
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
    """Return the end offsets of those partitions that still exist."""
    known = run(client.metadata(sorted({partition.topic for partition in partitions})))
    there = [partition for partition in partitions if known.has(partition)]
    ends = run(list_offsets(client, dict.fromkeys(there, LATEST)))
    return {partition: at.offset for partition, at in ends.items()}


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
    """Return the lag of all partitions together; None if one is unknown."""
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


@app.command(alias="rm")
def delete(
    *names: str,
    group: GroupFlag = (),
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Delete groups without members, and their offsets; asks for confirmation on a terminal.

    For example: headrace group delete billing
    """
    wanted = names + group
    if not wanted:
        raise UsageError("name at least one group")
    confirm_on_terminal(f"Delete {' and '.join(wanted)} with all committed offsets?", yes=yes)
    with cluster.client() as client:
        known = [listed.group for listed in run(groups.list_groups(client))]

        def act(name: str) -> tuple[bool, str]:
            if name not in known:
                raise not_found("group", name, known)
            run(groups.delete_group(client, name))
            return True, f"deleted {name}"

        return do_to_each("group", wanted, "deleted", act, json=json)
