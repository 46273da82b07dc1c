"""Transactions that one process begins and another may end.

Uses transaction version 1 (KIP-98): partitions are added before they are written to, and a
producer's epoch stays the same when its transaction ends. So EndTxn can be repeated by any process:
the same outcome again succeeds, and the opposite one is refused.
"""

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any, NamedTuple

from headrace.client.calls.call import ColdCall, Maker, check, error_code
from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition, by_topic
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.reader import CompactReader

_TRANSACTION = 1
"""Coordinator type of transactional ids in FindCoordinator."""
_TWO_PHASE_SINCE = 6
_STATE_BYTES_MIN = 28
"""Least encoded size of a transaction in a DescribeTransactions response."""
NO_TIMEOUT_MS = (1 << 31) - 1
"""The timeout reported for a two-phase transaction, which never times out (KIP-939)."""
GONE = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
"""Errors for a transaction that has ended otherwise, or whose id another producer has taken
over."""


class Writer(NamedTuple):
    """A transactional producer: its transactional id with current producer id and epoch."""

    transactional_id: str
    producer_id: int
    epoch: int


class OpenTransaction(NamedTuple):
    """A transactional id's state (DescribeTransactions, KIP-664)."""

    writer: Writer
    state: str
    timeout_ms: int
    started_ms: int
    """When the transaction began, in ms since 1970; -1 if none is open."""
    partitions: Collection[TopicPartition] = ()


class ListedTransaction(NamedTuple):
    """A transactional id as its coordinator lists it (ListTransactions)."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    """Id of the broker that listed the transactional id."""


async def take_id(
    client: Client, transactional_id: str, timeout_ms: int, *, two_phase: bool = False
) -> Writer:
    """Initialise a producer for the id: fence its previous producer and abort the open transaction.

    `two_phase`: request transactions without a timeout (KIP-939), where the broker supports them;
    else `timeout_ms` applies. ApiError TRANSACTIONAL_ID_AUTHORIZATION_FAILED also if two-phase is
    not authorised.
    """

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        return maker.request(
            transactional_id=transactional_id,
            transaction_timeout=timedelta(milliseconds=timeout_ms),
            enable2_pc=two_phase,
        )

    def parse(response: Any) -> Writer:  # noqa: ANN401 - kio's entity
        check(response.error_code)
        return Writer(transactional_id, response.producer_id, response.producer_epoch)

    newest = _TWO_PHASE_SINCE if two_phase else _TWO_PHASE_SINCE - 1
    call = ColdCall(ApiKey.INIT_PRODUCER_ID, build, parse, versions=(0, newest))
    return await client.ask_coordinator(transactional_id, call, kind=_TRANSACTION)


async def add_partitions(
    client: Client, writer: Writer, partitions: Collection[TopicPartition]
) -> None:
    """Add partitions to the producer's transaction; the first ones begin it."""
    topics = by_topic(sorted(partitions))

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        named = tuple(
            maker.part("AddPartitionsToTxnTopic", name=topic, partitions=tuple(numbers))
            for topic, numbers in topics.items()
        )
        return maker.request(
            v3_and_below_transactional_id=writer.transactional_id,
            v3_and_below_producer_id=writer.producer_id,
            v3_and_below_producer_epoch=writer.epoch,
            v3_and_below_topics=named,
        )

    def parse(response: Any) -> None:  # noqa: ANN401 - kio's entity
        codes = [
            (topic.name, partition.partition_index, error_code(partition.partition_error_code))
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ]
        # If one partition cannot be added, the others get OPERATION_NOT_ATTEMPTED: show its error.
        codes.sort(key=lambda found: found[2] is ErrorCode.OPERATION_NOT_ATTEMPTED)
        for topic, partition, code in codes:
            if code is not ErrorCode.NONE:
                raise ApiError(code, f"{topic}-{partition} cannot be written to: {code.name}")

    call = ColdCall(ApiKey.ADD_PARTITIONS_TO_TXN, build, parse, versions=(0, 3))
    await client.ask_coordinator(writer.transactional_id, call, kind=_TRANSACTION)


async def end(client: Client, writer: Writer, *, commit: bool) -> None:
    """Commit or abort the producer's transaction; repeating the same outcome does nothing.

    ApiError with a code of `GONE` if the transaction ended otherwise.
    """

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        return maker.request(
            transactional_id=writer.transactional_id,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            committed=commit,
        )

    def parse(response: Any) -> None:  # noqa: ANN401 - kio's entity
        check(response.error_code)

    call = ColdCall(ApiKey.END_TXN, build, parse, versions=(0, 4))
    await client.ask_coordinator(writer.transactional_id, call, kind=_TRANSACTION)


async def describe(client: Client, ids: Iterable[str]) -> dict[str, OpenTransaction]:
    """Return the transaction state of each transactional id; unknown ids are left out."""
    by_address: dict[Any, list[str]] = {}
    for transactional_id in ids:
        link = await client.retrying(lambda name=transactional_id: client.coordinator(1, name))  # type: ignore[misc]
        by_address.setdefault(link.address, []).append(transactional_id)
    found: dict[str, OpenTransaction] = {}
    for names in by_address.values():
        call = _DescribeCall(tuple(names))
        found.update(await client.ask_coordinator(names[0], call, kind=_TRANSACTION))
    return found


class _DescribeCall(ColdCall[dict[str, OpenTransaction]]):
    """DescribeTransactions v0, decoded by hand: kio refuses a start time of -1 (no transaction).

    Unknown transactional ids are left out. ApiError if the coordinator returns an error for one.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
            return maker.request(transactional_ids=names)

        super().__init__(ApiKey.DESCRIBE_TRANSACTIONS, build, lambda _: {}, versions=(0, 0))

    def decode(self, version: int, body: memoryview) -> dict[str, OpenTransaction]:
        """Decode a DescribeTransactions response. Raises Malformed."""
        reader = CompactReader(body)
        reader.int32()  # Skip the throttle time.
        found = {}
        for _ in range(reader.count(_STATE_BYTES_MIN)):
            code, transaction = _read_state(reader)
            if error_code(code) is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                check(code)
                found[transaction.writer.transactional_id] = transaction
        reader.skip_tags()
        return found


def _read_state(reader: CompactReader) -> tuple[int, OpenTransaction]:
    code, transactional_id, state = reader.int16(), reader.string(), reader.string()
    timeout_ms, started_ms = reader.int32(), reader.int64()
    writer = Writer(transactional_id, reader.int64(), reader.int16())
    partitions: list[TopicPartition] = []
    for _ in range(reader.count(3)):
        topic = reader.string()
        partitions += [TopicPartition(topic, reader.int32()) for _ in range(reader.count(4))]
        reader.skip_tags()
    reader.skip_tags()
    return code, OpenTransaction(writer, state, timeout_ms, started_ms, partitions)


async def list_transactions(
    client: Client, states: Collection[str] = ()
) -> list[ListedTransaction]:
    """Return the transactional ids of all brokers, sorted; `states`: only those in these states."""

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        return maker.request(state_filters=tuple(states), producer_id_filters=())

    async def attempt() -> list[ListedTransaction]:
        known = await client.metadata([])
        found: list[ListedTransaction] = []
        for broker in sorted(known.brokers):

            def parse(response: Any, broker: int = broker) -> list[ListedTransaction]:  # noqa: ANN401
                check(response.error_code)
                return [
                    ListedTransaction(
                        str(state.transactional_id),
                        str(state.transaction_state),
                        int(state.producer_id),
                        broker,
                    )
                    for state in response.transaction_states
                ]

            call = ColdCall(ApiKey.LIST_TRANSACTIONS, build, parse, versions=(0, 0))
            found += await client.ask(await client.broker(broker), call)
        return sorted(found)

    return await client.retrying(attempt)


async def open_ids(client: Client, prefix: str) -> list[str]:
    """Return the transactional ids with this prefix that have an open transaction, on all
    brokers."""
    listed = await list_transactions(client, ("Ongoing",))
    names = (transaction.transactional_id for transaction in listed)
    return [name for name in names if name.startswith(prefix)]


async def offers_two_phases(client: Client) -> bool:
    """Return whether the brokers support two-phase transactions without a timeout (KIP-939)."""

    async def attempt() -> bool:
        link = await client.any_link()
        return link.versions.get(ApiKey.INIT_PRODUCER_ID, (0, 0))[1] >= _TWO_PHASE_SINCE

    return await client.retrying(attempt)
