"""`headrace share`: share groups (KIP-932)."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from cyclopts import App, Parameter

from headrace.cli.group.offset_reset import show_moves
from headrace.client.admin import groups
from headrace.client.admin.groups import DescribedGroup, ListedGroup
from headrace.client.admin.share_groups import (
    ShareStart,
    describe_share_group,
    move_share_starts,
    share_starts,
)
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.nouns import TopicPartition
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm_on_terminal
from headrace.terminal.failure import CommandError, UsageError, not_found
from headrace.terminal.offset_positions import parse_place, resolve_places
from headrace.terminal.output import counted, note, print_line, print_list, print_table
from headrace.terminal.partition_choice import chosen_partitions
from headrace.terminal.per_name_outcomes import describe_each, do_to_each

app = App(name="share", help="List, describe, reset and delete share groups.")
_TYPE = "share"


@app.command(name="list", alias="ls")
def list_(*, json: Json = False, cluster: BrokerOptions = BrokerOptions()) -> None:  # noqa: B008
    """List share groups.

    For example: headrace share list --json
    """
    with cluster.client() as client:
        listed = _listed(client)
    rows = [(group.group, group.state) for group in listed]
    found = [{"group": name, "state": state} for name, state in rows]
    print_list(found, ["GROUP", "STATE"], rows, none="no share groups", json=json)


def _listed(client: Client) -> list[ListedGroup]:
    return [group for group in run(groups.list_groups(client)) if group.type.lower() == _TYPE]


class _Described(NamedTuple):
    group: DescribedGroup
    starts: Mapping[TopicPartition, ShareStart]

    @property
    def lag(self) -> int | None:
        """Records not delivered yet, of all partitions; None if one is unknown."""
        lags = [start.lag for start in self.starts.values()]
        return None if None in lags else sum(lag for lag in lags if lag is not None)


@app.command
def describe(
    *names: str,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> int:
    """Show share groups: members, and the start offset of each partition.

    For example: headrace share describe workers
    """
    if not names:
        raise UsageError("name at least one share group")
    with cluster.client() as client:
        return describe_each(
            "group", names, lambda name: _described(client, name), _print, _as_json, json=json
        )


def _described(client: Client, name: str) -> _Described:
    found = run(describe_share_group(client, name))
    if found is None:
        raise not_found(_TYPE, name, [group.group for group in _listed(client)])
    return _Described(found, run(share_starts(client, name)))


def _as_json(found: _Described) -> dict[str, object]:
    return {
        "group": found.group.group,
        "state": found.group.state,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": [partition._asdict() for partition in member.assignment],
            }
            for member in found.group.members
        ],
        "lag": found.lag,
        "partitions": [
            {**partition._asdict(), "start_offset": start.offset, "lag": start.lag}
            for partition, start in sorted(found.starts.items())
        ],
    }


def _print(found: _Described) -> None:
    lag = "unknown" if found.lag is None else found.lag
    members = counted(len(found.group.members), "member")
    print_line(f"{found.group.group}: {found.group.state}, {members}, lag {lag}")
    if found.group.members:
        print_table(
            ["MEMBER", "CLIENT", "HOST", "PARTITIONS"],
            [
                [member.member_id, member.client_id, member.host,
                 " ".join(map(str, member.assignment))]
                for member in found.group.members
            ],
        )  # fmt: skip
    if found.starts:
        print_table(
            ["TOPIC", "PARTITION", "START", "LAG"],
            [
                [*partition, start.offset, start.lag]
                for partition, start in sorted(found.starts.items())
            ],
        )


@app.command(alias="reset-offsets")
def reset(
    name: str,
    *,
    to: Annotated[str, Parameter(name=["--to", "-t"], help="start, end, a number or @time.")],
    topics: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--topics", "--topic"],
            help="Only these: topic or topic:0,1; default: all of the group.",
        ),
    ] = (),
    execute: Annotated[bool, Parameter(help="Apply the change; without it, only show it.")] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Reset the start offsets of a share group without members; only shown without --execute.

    Records from the new start on are delivered again. For example: headrace share reset workers
    --to start --topics orders --execute
    """
    place = parse_place(to, "--to")
    if place.kind not in {"time", "offset"}:
        raise UsageError(f"--to {to}: must be start, end, a number or @time")
    with cluster.client() as client:
        known = run(describe_share_group(client, name))
        starts = run(share_starts(client, name)) if known is not None else {}
        if topics:
            partitions = chosen_partitions(run(client.metadata()), topics, "--topics")
        elif known is None:
            raise not_found(_TYPE, name, [group.group for group in _listed(client)])
        else:
            partitions = sorted(starts)
        if not partitions:
            raise UsageError(
                f"share group {name} has consumed nothing yet; pass topics with --topics"
            )
        if execute and known is not None and known.members:
            raise CommandError(
                f"share group {name} has {counted(len(known.members), 'member')}; stop them first"
            )
        moved = run(resolve_places(client, place, partitions, tell=note))
        if execute:
            run(move_share_starts(client, name, moved))
    rows = [
        (*partition, starts[partition].offset if partition in starts else None, moved[partition])
        for partition in partitions
    ]
    show_moves(name, rows, dry_run=not execute, json=json)
    if not execute and not json:
        note("nothing was changed: pass --execute to apply")


@app.command(alias="rm")
def delete(
    *names: str,
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Delete share groups without members; asks for confirmation on a terminal.

    Their delivery state is deleted too. For example: headrace share delete workers
    """
    if not names:
        raise UsageError("name at least one share group")
    confirm_on_terminal(f"Delete {' and '.join(names)} with all delivery state?", yes=yes)
    with cluster.client() as client:
        known = [group.group for group in _listed(client)]

        def act(name: str) -> tuple[bool, str]:
            if name not in known:
                raise not_found(_TYPE, name, known)
            run(groups.delete_group(client, name))
            return True, f"deleted {name}"

        return do_to_each("group", names, "deleted", act, json=json)
