"""Transactions of several producers, begun in one process and ended in another.

Transaction version 1 (KIP-98): partitions are added before they are written to, and a producer's
epoch stays as it is when its transaction ends, so that its end can be asked for again whoever
asks: the same end twice is one, and any other is refused.
"""

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any, NamedTuple

from headrace.client.calls.call import ColdCall, Maker, check, error_code
from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.reader import CompactReader

_TRANSACTION = 1
"""The kind of coordinator."""
_TWO_PHASE_SINCE = 6
_STATE_BYTES_MIN = 28
"""One transaction in the answer to DescribeTransactions."""
NO_TIMEOUT_MS = (1 << 31) - 1
"""A transaction's timeout where it has none (KIP-939)."""
GONE = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
"""What is answered about a transaction that ended otherwise, or whose id another producer took."""


class Writer(NamedTuple):
    """A producer that has a transactional id, until another takes it."""

    transactional_id: str
    producer_id: int
    epoch: int


class OpenTransaction(NamedTuple):
    """Where a transaction stands (KIP-664)."""

    writer: Writer
    state: str
    timeout_ms: int
    started_ms: int
    """-1 where none is open."""
    partitions: Collection[TopicPartition] = ()


class ListedTransaction(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    """The broker that said so."""


async def take_id(
    client: Client, transactional_id: str, timeout_ms: int, *, two_phase: bool = False
) -> Writer:
    """Take the id: whoever had it is fenced, and what that one left open is aborted.

    `two_phase`: its transactions never time out where the broker offers that (KIP-939), else after
    `timeout_ms`. ApiError TRANSACTIONAL_ID_AUTHORIZATION_FAILED also where that is not allowed.
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
    """Take partitions into the writer's transaction, which begins with the first ones."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)

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
        # Those that could have been added are answered so where another could not.
        codes.sort(key=lambda found: found[2] is ErrorCode.OPERATION_NOT_ATTEMPTED)
        for topic, partition, code in codes:
            if code is not ErrorCode.NONE:
                raise ApiError(code, f"{topic}-{partition} cannot be written to: {code.name}")

    call = ColdCall(ApiKey.ADD_PARTITIONS_TO_TXN, build, parse, versions=(0, 3))
    await client.ask_coordinator(writer.transactional_id, call, kind=_TRANSACTION)


async def end(client: Client, writer: Writer, *, commit: bool) -> None:
    """End the writer's transaction; again the same way does nothing. ApiError of `GONE`."""

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
    """Return where the transactions of these ids stand; ids that are not known are left out."""
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
    """DescribeTransactions v0; its answer is read here: kio takes no start of -1 (no transaction).

    Ids that are not known are left out. ApiError for what is wrong with one.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
            return maker.request(transactional_ids=names)

        super().__init__(ApiKey.DESCRIBE_TRANSACTIONS, build, lambda _: {}, versions=(0, 0))

    def decode(self, version: int, body: memoryview) -> dict[str, OpenTransaction]:
        """Decode the response; `Malformed` where it is none."""
        reader = CompactReader(body)
        reader.int32()  # how long the client was throttled
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
    """Return the transactional ids of all brokers, by name; with `states` those in one of them."""

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
    """Return the transactional ids that begin so and have an open transaction, on all brokers."""
    listed = await list_transactions(client, ("Ongoing",))
    names = (transaction.transactional_id for transaction in listed)
    return [name for name in names if name.startswith(prefix)]


async def offers_two_phases(client: Client) -> bool:
    """Tell whether the brokers offer transactions without timeout (KIP-939)."""

    async def attempt() -> bool:
        link = await client.any_link()
        return link.versions.get(ApiKey.INIT_PRODUCER_ID, (0, 0))[1] >= _TWO_PHASE_SINCE

    return await client.retrying(attempt)
