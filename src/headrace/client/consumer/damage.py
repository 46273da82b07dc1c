"""Corrupt records met by a consumer: find their place on disk, and the next readable offset."""

from pathlib import Path
from typing import NamedTuple

from headrace.client.admin.replicas import log_dirs
from headrace.client.calls.fetch import Fetched, Wanted, fetch_call, read_fetched
from headrace.client.client import Client
from headrace.client.transport.port import Address
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.loopback import is_loopback
from headrace.model.nouns import TopicPartition
from headrace.record import batch as batches

OF_DAMAGE = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE})
"""Error codes for corrupt records; KAFKA_STORAGE_ERROR also means a failed disk."""
_STEADY_PROBES = 512
"""How many offsets are probed one by one before the step doubles: few batches have more records."""


class DamagePlace(NamedTuple):
    """The leader and directory that hold a partition's corrupt records."""

    leader: int
    address: Address
    directory: str
    """The partition's directory, by its path on the leader; empty if the user may not see it."""


async def place_of_damage(client: Client, partition: TopicPartition) -> DamagePlace | None:
    """Return where the leader stores `partition`; None if its log directory has failed.

    KAFKA_STORAGE_ERROR from a healthy directory means corrupt records. From a failed directory it
    means a failed disk, and the next leader may have the records.
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
    """Return the segment file that holds `offset` if the broker is on this machine, else its
    directory."""
    if not place.directory:
        return "a file whose path the broker does not disclose"
    directory = Path(place.directory)
    if is_loopback(place.address.host):
        segments = [path for path in directory.glob("*.log") if path.stem.isdigit()]
        holding = [path for path in segments if int(path.stem) <= offset]
        if holding:
            return str(max(holding, key=lambda path: int(path.stem)))
    return str(directory)


async def next_sound_offset(client: Client, partition: TopicPartition, offset: int) -> int:
    """Return the first offset after `offset` from which a valid batch can be read, or the log end.

    Offsets are probed one by one, then in growing steps; valid batches between two corrupt ones may
    be skipped then.
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
    """Fetch at `offset`: return whether the batch there is valid, or the offset out of range."""

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
