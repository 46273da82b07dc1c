"""Extents of messages and the files they are spilled to, on a simulated disk."""

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.queue_stores.memory.message_run import size_of
from headrace.queue_stores.memory.spill_extent import Content, Extent
from headrace.queue_stores.memory.spill_files import SpillFiles
from headrace.testing.disk import SimDisk
from tests.support.queues.spill import DATA, message_of, number_of

if TYPE_CHECKING:
    from headrace.wire.amqp.content import Message

FILE = 10_000


class Told:
    """The owner of extents, who notes what became of them."""

    def __init__(self) -> None:
        self.at_hand: list[Extent] = []
        self.on_disk: list[Extent] = []
        self.problems: list[Exception] = []

    def loaded(self, extent: Extent) -> None:
        self.at_hand.append(extent)

    def written(self, extent: Extent) -> None:
        self.on_disk.append(extent)

    def release(self, extent: Extent) -> None:
        extent.release()

    def failed(self, error: Exception) -> None:
        self.problems.append(error)


def extent_of(
    *numbers: int, base: int = 0, size: int = 100, expiries: Sequence[float] | None = None
) -> Extent:
    """An extent of messages with these numbers."""
    slots: list[Message | None] = [message_of(number, size) for number in numbers]
    full = sum(size_of(each) for each in slots if each is not None)
    times = None if expiries is None else array("d", expiries)
    return Extent(Told(), (base, slots, full), times)


class Files:
    """Files on a simulated disk."""

    def __init__(self, file_bytes: int = FILE) -> None:
        self.disk = SimDisk()
        self.disk.make_directory(DATA)
        self.files = SpillFiles(self.disk, DATA, file_bytes)
        self.errors: list[OSError | None] = []
        self.numbers = 0

    def write(self, *extents: Extent) -> OSError | None:
        """Write extents, and wait for it."""
        self.files.write(extents, self.errors.append)
        self.disk.settle()
        for extent in extents:
            if extent.file is not None:
                extent.release()
        return self.errors[-1]

    def some(self, count: int, *, messages: int = 4) -> list[Extent]:
        """Write so many extents, each by itself."""
        written = []
        for _ in range(count):
            first = self.numbers
            self.numbers += messages
            extent = extent_of(*range(first, self.numbers), base=first)
            self.write(extent)
            written.append(extent)
        return written

    def read(self, extent: Extent) -> Content | Exception:
        """Read an extent, and wait for it."""
        read: list[Content | Exception] = []
        self.files.read(extent, read.append)
        self.disk.settle()
        return read[0]

    def numbers_of(self, extent: Extent) -> list[int]:
        content = self.read(extent)
        assert isinstance(content, Content), content
        return [number_of(message) for message in content.messages]

    @property
    def names(self) -> list[str]:
        return self.disk.list(DATA)

    def sizes(self) -> int:
        """What the files take, as the disk has it."""
        nodes = [self.disk.nodes[self.disk._node(f"{DATA}/{name}")] for name in self.names]
        return sum(len(node.content) for node in nodes)


# What an extent is on disk
