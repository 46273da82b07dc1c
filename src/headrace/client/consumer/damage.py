"""Damaged records met by a reader: where they lie, and where it can go on behind them."""

from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from headrace.client.admin.replicas import log_dirs
from headrace.client.calls.fetch import Fetched, Wanted, fetch_call, read_fetched
from headrace.client.client import Client
from headrace.client.transport.port import Address
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record import batch as batches

OF_DAMAGE = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE})
"""What readers of damaged records are told; a failed disk's get the former, too."""
_STEADY_PROBES = 512
"""So many offsets are tried one by one before the steps grow: a batch rarely has more records."""


class DamagePlace(NamedTuple):
    """Where a partition's damaged records lie."""

    leader: int
    address: Address
    directory: str
    """The partition's directory, by its path on the leader; empty where it does not say."""


async def place_of_damage(client: Client, partition: TopicPartition) -> DamagePlace | None:
    """Return where the leader has `partition`; None where its log directory is not in order.

    A reader whose fetches get KAFKA_STORAGE_ERROR from a sound directory has met damaged records;
    from another one the disk has failed, and the next leader may have them.
    """

    async def attempt() -> DamagePlace | None:
        known = await client.metadata([partition.topic])
        leader = known.leader(*partition)
        try:
            found = (await log_dirs(client, leader)).get(partition)
        except ApiError as error:
            if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise
            return DamagePlace(leader, known.brokers[leader], "")
        if found is None:
            return None
        directory = f"{found.directory}/{partition.topic}-{partition.partition}"
        return DamagePlace(leader, known.brokers[leader], directory)

    return await client.retrying(attempt)


def file_of(place: DamagePlace, offset: int) -> str:
    """Return the segment that holds `offset` where it is on this machine, else its directory."""
    if not place.directory:
        return "a file that it does not name"
    directory = Path(place.directory)
    if _is_loopback(place.address.host):
        segments = [path for path in directory.glob("*.log") if path.stem.isdigit()]
        holding = [path for path in segments if int(path.stem) <= offset]
        if holding:
            return str(max(holding, key=lambda path: int(path.stem)))
    return str(directory)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def next_sound_offset(client: Client, partition: TopicPartition, offset: int) -> int:
    """Return the first offset behind `offset` from which records can be read, or the end.

    Tried one by one, in steps that grow where much is damaged: sound batches between two damaged
    ones may then be passed over.
    """
    step, tried, bad = 1, 0, offset
    while not await _is_sound(client, partition, bad + step):
        bad += step
        tried += 1
        if tried % _STEADY_PROBES == 0:
            step *= 2
    low, high = bad, bad + step
    while high - low > 1:
        middle = (low + high) // 2
        if await _is_sound(client, partition, middle):
            high = middle
        else:
            low = middle
    return high


async def _is_sound(client: Client, partition: TopicPartition, offset: int) -> bool:
    """Tell whether a whole batch can be read at `offset`, or nothing is there any more."""

    async def attempt() -> Fetched:
        known = client.known or await client.metadata([partition.topic])
        wanted = [
            Wanted(
                partition.topic,
                known.check(partition.topic).topic_id,
                partition.partition,
                offset,
                max_bytes=1,
            )
        ]
        link = await client.broker(known.leader(*partition))
        call = fetch_call(wanted, max_bytes=1, min_bytes=0, max_wait_ms=0)
        (fetched,) = read_fetched(await client.ask(link, call), wanted)
        return fetched

    fetched = await client.retrying(attempt)
    if fetched.error_code:
        return fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    if not fetched.records:
        return True
    try:
        at, header = next(batches.iterate(fetched.records))
        batch = fetched.records[at : at + batches.size_of(header)]
        if not batches.crc_ok(batch, header):
            return False
        for _ in batches.records(batch):
            pass
    except (ApiError, StopIteration):
        return False
    return True
