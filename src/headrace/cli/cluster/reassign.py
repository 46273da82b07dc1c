"""`headrace cluster elect-leaders` and `reassign`: leader elections and moves of partitions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from cyclopts import Parameter

from headrace.client import move_progress
from headrace.client.admin import replica_throttles, replicas
from headrace.client.calls.metadata import Metadata
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import EXIT_FAILED, UsageError, error_json, refusal_of
from headrace.terminal.output import counted, note, print_json, print_line, print_list
from headrace.terminal.partition_choice import check_topic, listed


def elect_leaders(
    *names: str,
    unclean: Annotated[
        bool,
        Parameter(
            help="Elect a replica that is not in sync if no in-sync replica is left. Records it"
            " lacks are lost."
        ),
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Elect the preferred replicas: of all partitions, or of the given TOPIC or TOPIC:PARTITION.

    Partitions that need no election are no failure. For example: headrace cluster elect-leaders
    orders billing:3
    """
    if unclean and not names:
        raise UsageError("--unclean loses records: pass the topics or partitions")
    kind = replicas.UNCLEAN if unclean else replicas.PREFERRED
    with cluster.client() as client:
        wanted = None if not names else _partitions_named(run(client.metadata()), names)
        outcome = run(replicas.elect_leaders(client, kind, wanted))
    done = "already has a leader" if unclean else "is already led by the preferred replica"
    words = {
        partition: "has a new leader" if error is None else done
        for partition, error in outcome.items()
    }
    return _tell(outcome, words, "no election is needed", json, elections=True)


def reassign(
    *moves: str,
    cancel: Annotated[bool, Parameter(help="Cancel the moves of TOPIC:PARTITION.")] = False,
    list_: Annotated[
        bool, Parameter(name=["--list", "-l"], help="Show the partitions that are being moved.")
    ] = False,
    throttle: Annotated[
        int | None,
        Parameter(help="The most bytes per second that each broker copies, for all moves."),
    ] = None,
    verify: Annotated[
        bool,
        Parameter(
            help="Remove the throttles of all topics (or the given) and brokers if no move is"
            " running."
        ),
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Move partitions to other brokers: TOPIC:PARTITION=BROKER,BROKER, the preferred leader first.

    TOPIC=BROKER,BROKER moves all its partitions, led by each in turn. A move is complete when all
    these brokers are in sync. For example: headrace cluster reassign orders:0=1,2,3 billing=1,2,3
    --throttle 10000000; show progress: headrace cluster reassign --list; remove the throttle at
    the end: headrace cluster reassign --verify; cancel: headrace cluster reassign --cancel orders:0
    """
    if list_ and (moves or cancel or verify):
        raise UsageError("--list cannot be combined with partitions, --cancel or --verify")
    if not list_ and not verify and not moves:
        raise UsageError("pass the moves as TOPIC:PARTITION=1,2,3; or pass --list")
    if throttle is not None and (throttle < 1 or list_ or cancel or verify):
        raise UsageError("--throttle must be at least 1 byte per second, and needs moves to start")
    if cancel and verify:
        raise UsageError("--cancel removes the throttles itself: omit --verify")
    with cluster.client() as client:
        if list_:
            _show_moves(client, run(replicas.reassignments(client)), json=json)
            return 0
        if verify:
            return _verify(client, moves, json=json)
        known = run(client.metadata())
        wanted = _called_off(known, moves) if cancel else _wanted(known, moves)
        if throttle is not None:
            _throttle(client, known, wanted, throttle)
        outcome = run(replicas.reassign(client, wanted))
        if cancel and not any(outcome.values()) and not run(replicas.reassignments(client)):
            _end_throttles(client, {partition.topic for partition in wanted}, known.brokers)
    words = {
        partition: "is not moved" if target is None else f"moves to {listed(target)}"
        for partition, target in wanted.items()
    }
    return _tell(outcome, words, "nothing moves", json)


Wanted = dict[TopicPartition, Sequence[int] | None]


def _called_off(known: Metadata, names: Sequence[str]) -> Wanted:
    return dict.fromkeys(_partitions_named(known, names, whole=False))


def _wanted(known: Metadata, moves: Sequence[str]) -> Wanted:
    return {
        partition: _turned(targets, partition.partition if whole else 0)
        for name, targets in [_move(text) for text in moves]
        for whole in (":" not in name,)
        for partition in _partitions_named(known, [name])
    }


def _throttle(client: Client, known: Metadata, wanted: Wanted, bytes_per_second: int) -> None:
    moving = run(replicas.reassignments(client))
    moves = replica_throttles.moves_of(known, wanted, moving)
    brokers = run(replica_throttles.throttle(client, moves, bytes_per_second))
    note(
        f"moves copy at most {bytes_per_second} bytes per second on each of the brokers"
        f" {listed(brokers)}; when they are complete: headrace cluster reassign --verify"
    )


def _verify(client: Client, names: Sequence[str], *, json: bool) -> int:
    """Show running moves; if there are none, remove the throttles. Return the exit code."""
    known = run(client.metadata())
    for name in names:
        check_topic(known, name)
    moving = run(replicas.reassignments(client))
    _show_moves(client, moving, json=json)
    if moving:
        note("headrace: throttles stay until these moves are complete")
        return EXIT_FAILED
    _end_throttles(client, names or sorted(known.topics), known.brokers)
    return 0


def _end_throttles(client: Client, topics: Iterable[str], brokers: Iterable[int]) -> None:
    of_topics, of_brokers = run(replica_throttles.end_throttles(client, topics, brokers))
    for topic in of_topics:
        note(f"removed the throttle of topic {topic}")
    for broker in of_brokers:
        note(f"removed the throttle of broker {broker}")


def _show_moves(client: Client, moving: Sequence[replicas.Reassigning], *, json: bool) -> None:
    copies = run(move_progress.of_moves(client, moving))
    print_list(
        [
            {
                **move.partition._asdict(),
                "replicas": list(move.replicas),
                "adding": list(move.adding),
                "removing": list(move.removing),
                "progress": [copy._asdict() for copy in copies[move.partition]],
            }
            for move in moving
        ],
        ["TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING", "COPIED"],
        (
            [
                *move.partition,
                listed(move.replicas),
                listed(move.adding) or None,
                listed(move.removing) or None,
                "; ".join(map(_words, copies[move.partition])) or None,
            ]
            for move in moving
        ),
        none="no partition is being moved",
        json=json,
    )


def _words(copy: move_progress.Copy) -> str:
    """Return the progress of one replica: `4: 37 %, 12345 behind`."""
    known = [] if copy.percent is None else [f"{copy.percent} %"]
    if copy.lag is not None:
        known.append(f"{copy.lag} behind")
    return f"{copy.broker}: {', '.join(known) or 'not known'}"


def _tell(
    outcome: Mapping[TopicPartition, ApiError | None],
    words: Mapping[TopicPartition, str],
    nothing: str,
    json: bool,
    *,
    elections: bool = False,
) -> int:
    """Print each partition's result; return the exit code. An unneeded election is no error."""
    failed = {
        partition: error
        for partition, error in outcome.items()
        if error is not None and not (elections and error.code is ErrorCode.ELECTION_NOT_NEEDED)
    }
    if json:
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "error": None if error is None else error_json(error),
                    **({"elected": error is None} if elections else {}),
                }
                for partition, error in outcome.items()
            ]
        )
    else:
        for partition in outcome:
            if partition in failed:
                text = refusal_of(failed[partition])
                note(f"headrace: {partition.topic}:{partition.partition}: {text}")
            else:
                print_line(f"{partition.topic}:{partition.partition} {words[partition]}")
        if not outcome:
            note(nothing)
        elif failed:
            note(f"headrace: {counted(len(failed), 'partition')} of {len(outcome)} failed")
    return EXIT_FAILED if failed else 0


def _partitions_named(
    known: Metadata, names: Sequence[str], *, whole: bool = True
) -> list[TopicPartition]:
    """Return the partitions that TOPIC:PARTITION, or with `whole` TOPIC, name.

    Raises CommandError.
    """
    found: list[TopicPartition] = []
    for name in names:
        topic, colon, number = name.partition(":")
        if not topic or (colon and not number.isascii()) or (colon and not number.isdigit()):
            raise UsageError(f"{name}: must be TOPIC:PARTITION")
        if not colon and not whole:
            raise UsageError(f"{name}: pass the partition too, as {name}:0")
        check_topic(known, topic)
        there = [partition.partition for partition in known.topics[topic].partitions]
        if colon and int(number) not in there:
            raise UsageError(f"{name}: topic {topic} has {counted(len(there), 'partition')}")
        found += [TopicPartition(topic, index) for index in ([int(number)] if colon else there)]
    return found


def _move(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse TOPIC:PARTITION=BROKER,BROKER or TOPIC=BROKER,BROKER. Raises UsageError."""
    name, equals, brokers = text.partition("=")
    try:
        if not equals or not name:
            raise ValueError(text)
        return name, tuple(int(broker) for broker in brokers.split(","))
    except ValueError:
        raise UsageError(
            f"{text}: must be TOPIC:PARTITION=BROKER,BROKER, as t:0=1,2,3, or TOPIC=BROKER,BROKER"
        ) from None


def _turned(brokers: tuple[int, ...], by: int) -> tuple[int, ...]:
    """Return the brokers rotated by `by`, so that successive partitions get different leaders."""
    at = by % len(brokers)
    return brokers[at:] + brokers[:at]
