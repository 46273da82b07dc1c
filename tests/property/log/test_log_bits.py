"""Each bit of a batch's header is flipped once: what is read then is right, or refused."""

import pytest

from headrace.model.errors import ApiError
from headrace.model.nouns import Offset
from tests.support.log.log import World, append, read, records_of

BATCHES = 12
LOG_FILE = "/data/t-0/00000000000000000000.log"
LEADER_EPOCH = range(12, 16)
"""Of no record, and under no checksum."""


@pytest.mark.parametrize("victim", range(BATCHES))
@pytest.mark.parametrize("max_bytes", [100, 100_000])
def test_whatever_bit_of_a_header_is_flipped_nothing_wrong_is_served(
    victim: int, max_bytes: int
) -> None:
    world = World()
    log = world.log()
    positions = []
    for number in range(BATCHES):
        positions.append(log.segments[-1].size)
        append(log, b"value %d" % number)
    assert len(log.segments) == 1
    wrong = []
    for byte in set(range(61)) - set(LEADER_EPOCH):
        for bit in range(8):
            world.disk.flip(LOG_FILE, positions[victim] + byte, 1 << bit)
            for start in range(BATCHES):
                log.segments.forget_ends()
                wrong += [
                    f"byte {byte} bit {bit}, read from {start}: {what}"
                    for what in misread(world, start, max_bytes)
                ]
            world.disk.flip(LOG_FILE, positions[victim] + byte, 1 << bit)
    assert wrong == []
    world.close()


def misread(world: World, start: int, max_bytes: int) -> list[str]:
    """Reading on from `start` to the end or to a refusal: what came that should not."""
    log = world.log()
    at, expected = Offset(start), start
    try:
        while at < BATCHES:
            result = read(log, at, max_bytes, below=Offset(BATCHES))
            for record in records_of(bytes(result.data)):
                if record.offset < at:
                    continue
                if (record.offset, record.value) != (expected, b"value %d" % expected):
                    return [f"{record.offset} with {record.value!r} instead of {expected}"]
                expected += 1
            if result.next_offset <= at:
                return [f"no way on from {at}"]
            at = result.next_offset
    except ApiError:
        return []
    return [] if expected == BATCHES else [f"ends at {expected} without a word"]
