"""Messages by their physical offsets, which name partition and offset alone."""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.delivery.batches import stretches
from headrace.model.errors import Malformed
from headrace.model.nouns import Offset
from headrace.posix.awaiting import called_back
from headrace.record.batch import records
from headrace.wire.rocketmq.message_ids import place_of
from headrace.wire.rocketmq.topic_names import rocketmq_name

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
    from headrace.log.log import Log
    from headrace.record.record import Record

_READ_BYTES = 16 * 1024


class FoundMessage(NamedTuple):
    """A stored message and its topic."""

    topic: "ServedTopic"
    record: "Record"
    queue_id: int
    number: int
    """The number of its partition."""


async def find_message(broker: "ServedBroker", physical_offset: int) -> FoundMessage | None:
    """Return the message at a physical offset; None: none that clients may see is there.

    Messages of transactions that are aborted or not decided, and those of internal topics, are not
    seen. ApiError: the log or the metadata store is not available.
    """
    try:
        number, offset = place_of(physical_offset)
    except Malformed:
        return None
    located = await broker.numbers.located(number)
    info = None if located is None else broker.broker.image.topics_by_id.get(located.topic_id)
    name = None if info is None else rocketmq_name(info.name)
    topic = None if name is None else broker.topic_if_any(name)
    if located is None or topic is None:
        return None
    partition = broker.partition(topic, located.partition)
    end = partition.readable_end(True)
    read = partial(_record_at, partition.log, offset, end)
    record: Record | None = await called_back(partial(broker.broker.disk.run, read))
    return None if record is None else FoundMessage(topic, record, located.partition, number)


def _record_at(log: "Log", offset: int, end: int) -> "Record | None":
    """Return the record at an offset below the end, or None. On any thread."""
    if not log.start_offset <= offset < end:
        return None
    data = log.read_from_disk(Offset(offset), _READ_BYTES, below=Offset(end)).data
    aborted = log.aborted_transactions(Offset(offset), Offset(offset + 1))
    view = memoryview(data)
    for stretch in stretches(data, offset, aborted):
        if stretch.last < offset:
            continue
        if not stretch.wanted:
            return None
        found = records(view[stretch.begin : stretch.end])
        return next((record for record in found if record.offset == offset), None)
    return None
