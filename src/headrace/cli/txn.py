"""`headrace txn`: list, describe and abort transactions; `headrace producers`."""

from typing import Annotated

from cyclopts import App, Parameter

from headrace.client.admin.producer_states import (
    ProducerState,
    abort_in_partition,
    describe_producers,
)
from headrace.client.client import Client
from headrace.client.producer import transactions
from headrace.client.producer.transactions import OpenTransaction
from headrace.client.sync import run
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError, not_found
from headrace.terminal.output import print_line, print_list, tell
from headrace.terminal.partition_choice import chosen_partitions
from headrace.terminal.per_name_outcomes import describe_each

app = App(name="txn", help="List and describe transactions, abort those that hang.")

STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
    "PrepareEpochFence",
)  # fmt: skip
State = Annotated[
    tuple[str, ...],
    Parameter(name="--state", help=f"Only in this state: {', '.join(STATES)}."),
]


@app.command(name="list", alias="ls")
def list_(
    *,
    state: State = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> None:
    """List transactional ids, what each does now, and the broker that coordinates it.

    For example: headrace txn list --state Ongoing
    """
    if wrong := [text for text in state if text not in STATES]:
        raise UsageError(f"--state {wrong[0]}: must be one of {', '.join(STATES)}")
    with cluster.client() as client:
        listed = run(transactions.list_transactions(client, state))
    columns = ["TRANSACTIONAL ID", "STATE", "PRODUCER", "COORDINATOR"]
    shown = [transaction._asdict() for transaction in listed]
    print_list(shown, columns, listed, none="no transactions", json=json)


@app.command
def describe(
    *names: Annotated[str, Parameter(help="Transactional ids.")],
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Show transactions: the producer, since when, the partitions written to.

    For example: headrace txn describe payments-1
    """
    if not names:
        raise UsageError("name at least one transactional id")
    with cluster.client() as client:
        return describe_each(
            "transactional_id",
            names,
            lambda name: _described(client, name),
            _print_transaction,
            _as_json,
            json=json,
        )


def _described(client: Client, name: str) -> OpenTransaction:
    found = run(transactions.describe(client, [name])).get(name)
    if found is None:
        listed = run(transactions.list_transactions(client))
        raise not_found("txn", name, [known.transactional_id for known in listed])
    return found


def _as_json(found: OpenTransaction) -> dict[str, object]:
    return {
        "transactional_id": found.writer.transactional_id,
        "state": found.state,
        "producer_id": found.writer.producer_id,
        "producer_epoch": found.writer.epoch,
        "timeout_ms": found.timeout_ms,
        "started_ms": found.started_ms if found.started_ms >= 0 else None,
        "partitions": [partition._asdict() for partition in found.partitions],
    }


def _print_transaction(found: OpenTransaction) -> None:
    writer = found.writer
    print_line(f"{writer.transactional_id}: {found.state}")
    print_line(f"  producer: {writer.producer_id}, epoch {writer.epoch}")
    print_line(f"  timeout: {found.timeout_ms} ms")
    print_line(f"  began: {found.started_ms if found.started_ms >= 0 else '-'} (ms since 1970)")
    print_line(f"  partitions: {' '.join(map(str, found.partitions)) or '-'}")


@app.command
def abort(
    name: Annotated[str | None, Parameter(help="The transactional id.")] = None,
    *,
    topic: Annotated[
        str | None,
        Parameter(help="In place of an id: topic:0, where one hangs."),
    ] = None,
    start_offset: Annotated[
        int | None,
        Parameter(help="Where it begins: see headrace producers."),
    ] = None,
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Abort an open transaction: all of it by its id, or what hangs in one partition.

    By its id its producer is fenced. In a partition only what its coordinator has forgotten should
    be aborted: else records of one transaction are dropped here and kept there. For example:
    headrace txn abort payments-1 --yes; headrace txn abort --topic orders:0 --start-offset 17
    """
    if (name is None) == (topic is None) or (topic is None) != (start_offset is None):
        raise UsageError("say which: a transactional id, or --topic topic:0 and --start-offset N")
    with cluster.client() as client:
        if name is not None:
            answer = _abort_by_id(client, name, yes=yes)
        else:
            answer = _abort_in_partition(client, topic or "", start_offset or 0, yes=yes)
    tell(f"aborted {name or topic}", answer, json=json)


def _abort_by_id(client: Client, name: str, *, yes: bool) -> dict[str, object]:
    found = _described(client, name)
    if found.state != "Ongoing":
        raise CommandError(f"{name} has no open transaction: it is {found.state}")
    confirm(f"Abort the transaction of {name} and fence its producer?", yes=yes)
    writer = run(transactions.take_id(client, name, found.timeout_ms))
    return {
        "transactional_id": name,
        "partition": None,
        "producer_id": writer.producer_id,
        "producer_epoch": found.writer.epoch,
    }


def _abort_in_partition(client: Client, text: str, start: int, *, yes: bool) -> dict[str, object]:
    partitions = chosen_partitions(run(client.metadata()), [text], "--topic")
    if len(partitions) != 1:
        raise UsageError(f"--topic {text}: name one partition, as orders:0")
    partition = partitions[0]
    hanging = [
        producer
        for producer in run(describe_producers(client, [partition]))
        if producer.transaction_start == start
    ]
    if not hanging:
        raise CommandError(
            f"{partition} has no open transaction that begins at {start}; see: headrace producers"
            f" {partition.topic}",
            EXIT_NOT_FOUND,
        )
    confirm(f"Abort what producer {hanging[0].producer_id} left open in {partition}?", yes=yes)
    run(abort_in_partition(client, hanging[0]))
    return {
        "transactional_id": None,
        "partition": partition._asdict(),
        "producer_id": hanging[0].producer_id,
        "producer_epoch": hanging[0].producer_epoch,
    }


def producers(
    *topics: Annotated[str, Parameter(help="topic, or topic:0,1 for some of its partitions.")],
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Show who writes to partitions with sequence numbers, and open transactions there.

    Only idempotent and transactional producers: others leave nothing behind. For example: headrace
    producers orders:0,1
    """
    if not topics:
        raise UsageError("name at least one topic")
    with cluster.client() as client:
        partitions = chosen_partitions(run(client.metadata()), topics, "")
        found = run(describe_producers(client, partitions))
    print_list(
        [_producer_json(producer) for producer in found],
        ["TOPIC", "PARTITION", "PRODUCER", "EPOCH", "SEQUENCE", "TIMESTAMP", "OPEN FROM"],
        (
            [
                *producer.partition,
                producer.producer_id,
                producer.producer_epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.transaction_start if producer.transaction_start >= 0 else None,
            ]
            for producer in found
        ),
        none="no producer with sequence numbers writes there",
        json=json,
    )


def _producer_json(producer: ProducerState) -> dict[str, object]:
    start, coordinator_epoch = producer.transaction_start, producer.coordinator_epoch
    return {
        **producer.partition._asdict(),
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "coordinator_epoch": coordinator_epoch if coordinator_epoch >= 0 else None,
        "transaction_start_offset": start if start >= 0 else None,
    }
