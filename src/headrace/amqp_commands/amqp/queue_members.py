"""`headrace amqp queue grow`, `shrink`, `rebalance`, `critical`: members of a cluster's queues."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Literal

from cyclopts import Parameter

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.amqp_commands.amqp.asking import OneVhost
from headrace.client.admin import moved_queues
from headrace.client.admin.queue_moves import Queue, QueueMove, critical, grown, rebalanced, shrunk
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import (
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    CommandError,
    UsageError,
    error_json,
    refusal_of,
)
from headrace.terminal.output import counted, note, note_error, print_json, print_line, print_list

Pattern = Annotated[
    str | None,
    Parameter(name="--queue", help="A regular expression that matches whole names: 'orders.*'."),
]
All = Annotated[bool, Parameter(name="--all", negative=(), help="All queues.")]
Broker = Annotated[int, Parameter(help="The broker's id.")]
_BROKERS = "queue-broker.list"


def grow(
    broker: Broker,
    /,
    *,
    queue: Pattern = None,
    all_: All = False,
    strategy: Annotated[
        Literal["all", "even"],
        Parameter(show_default=True, help="even: only queues with an even number of members."),
    ] = "all",
    vhost: OneVhost = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Make a broker a member of queues, as rabbitmq-queues grow; wait until it has all messages.

    Repeated, it completes what was interrupted. For example: headrace amqp queue grow 4 --all
    --strategy even; headrace amqp queue grow 4 --vhost shop --queue 'orders.*'
    """
    with cluster.client() as client:
        _check_broker(client, broker)
        queues = _chosen(client, vhost, queue, whole=all_)
        return _move(client, grown(queues, broker, even=strategy == "even"), json=json)


def shrink(
    broker: Broker,
    /,
    *,
    queue: Pattern = None,
    all_: All = False,
    vhost: OneVhost = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Remove a broker from the members of queues, as rabbitmq-queues shrink; never the last one.

    For example: headrace amqp queue shrink 4 --all
    """
    with cluster.client() as client:
        queues = _chosen(client, vhost, queue, whole=all_)
        moves = list(shrunk(queues, broker))
        if not moves and broker not in {row["broker"] for row in run(ask_amqp(client, _BROKERS))}:
            text = f"broker {broker} is not registered, and a member of none of these queues"
            raise CommandError(text, EXIT_NOT_FOUND)
        return _move(client, moves, json=json)


def rebalance(
    kind: Annotated[
        Literal["all", "quorum", "classic", "stream"],
        Parameter(show_default=True, help="Queues of this type."),
    ] = "all",
    /,
    *,
    queue: Pattern = None,
    vhost: OneVhost = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Have brokers lead equally many queues, as rabbitmq-queues rebalance.

    Leaders move to members that are in sync, and to no drained broker. For example: headrace amqp
    queue rebalance quorum
    """
    with cluster.client() as client:
        queues = _chosen(client, vhost, queue, whole=True)
        queues = [each for each in queues if kind in {"all", each.type}]
        able = [
            int(row["broker"])
            for row in run(ask_amqp(client, _BROKERS))
            if row["serves_queues"] and not row["drained"]
        ]
        code = _move(client, rebalanced(queues, able), json=json)
        if not json:
            names = {(each.vhost, each.name) for each in queues}
            now = run(moved_queues.queues(partial(ask_amqp, client), vhost))
            led = Counter(each.leader for each in now if (each.vhost, each.name) in names)
            for each in able:
                print_line(f"broker {each} leads {counted(led[each], 'queue')}")
        return code


def critical_(
    broker: Annotated[int | None, Parameter(help="Only queues that need this broker.")] = None,
    /,
    *,
    vhost: OneVhost = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """List queues that confirm nothing once one more broker stops, with it; exits with 1 then.

    As rabbitmq-queues check_if_node_is_quorum_critical. A cluster of one broker has none. For
    example: headrace amqp queue critical 2 && stop-broker-2
    """
    with cluster.client() as client:
        alone = len(run(ask_amqp(client, _BROKERS))) == 1
        queues = [] if alone else run(moved_queues.queues(partial(ask_amqp, client), vhost))
    found = [
        {"vhost": each.vhost, "name": each.name, "broker": member, "in_sync": list(each.in_sync)}
        for each, member in critical(queues, broker)
    ]
    cells = ([str(row["vhost"]), str(row["name"]), str(row["broker"])] for row in found)
    titles = ["VHOST", "QUEUE", "BROKER"]
    print_list(found, titles, cells, none="no queue needs all of its members", json=json)
    return EXIT_FAILED if found else 0


def _check_broker(client: Client, broker: int) -> None:
    """Raise CommandError unless a broker may be a member of queues."""
    found = {row["broker"]: row for row in run(ask_amqp(client, _BROKERS))}
    if broker not in found:
        text = f"broker {broker} is not registered, or does not answer the other brokers"
        raise CommandError(text, EXIT_NOT_FOUND)
    if not found[broker]["serves_queues"]:
        raise CommandError(f"broker {broker} has no AMQP listener, so it has no queues")


def _chosen(client: Client, vhost: str | None, pattern: str | None, *, whole: bool) -> list[Queue]:
    """Return the durable queues that are meant. Raises UsageError, CommandError."""
    if pattern is None and not whole:
        raise UsageError("name the queues by --queue PATTERN, or pass --all")
    try:
        matches = re.compile(".*" if pattern is None else pattern).fullmatch
    except re.error as error:
        raise UsageError(f"--queue {pattern}: invalid regular expression: {error}") from None
    found = [
        each
        for each in run(moved_queues.queues(partial(ask_amqp, client), vhost))
        if matches(each.name)
    ]
    if not found and pattern is not None:
        raise CommandError(f"no durable queue matches {pattern}", EXIT_NOT_FOUND)
    return found


def _move(client: Client, moves: Iterable[QueueMove], *, json: bool) -> int:
    """Move queues and print the results; return the exit code."""
    moves = list(moves)
    outcomes: moved_queues.Outcomes = {}
    if moves:
        ask = partial(ask_amqp, client)
        outcomes = run(moved_queues.carry_out(client, ask, moves, note))
    rows = [(move, outcomes[move.queue.vhost, move.queue.name]) for move in moves]
    if json:
        print_json(
            [
                {
                    "vhost": move.queue.vhost,
                    "name": move.queue.name,
                    "members": list(move.members if error is None else move.queue.members),
                    "error": None if error is None else error_json(error),
                }
                for move, error in rows
            ]
        )
    for line in () if json else _lines([move for move, error in rows if error is None]):
        print_line(line)
    for move, error in () if json else rows:
        if error is not None:
            note_error(f"queue {move.queue.name} in vhost {move.queue.vhost}: {refusal_of(error)}")
    if not rows and not json:
        note("nothing moves")
    return EXIT_FAILED if any(outcomes.values()) else 0


def _lines(moves: Sequence[QueueMove]) -> Iterator[str]:
    for move in moves:
        members = ", ".join(map(str, move.members))
        led = f", led by {move.members[0]}" if move.leads else ""
        yield f"queue {move.queue.name} in vhost {move.queue.vhost}: members {members}{led}"
