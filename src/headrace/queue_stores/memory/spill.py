"""Spilling: messages are written to disk while memory is short, and read back when needed.

Messages to write are chosen at the end of the event loop's turn, after its deliveries. One write of
a few extents runs at a time; their messages stay in memory until it is done. If a write fails, they
stay until one succeeds, and publishers are blocked by the limit of memory (`memory_use`). Extents
that were read back stay in memory while there is room, and a few of them otherwise.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from headrace.ports.deadlines import Deadlines
from headrace.queue_stores.memory.memory_use import MemoryUse, Spillable
from headrace.queue_stores.memory.spill_extent import EXTENT_BYTES, MIN_SHARE, Content, Extent
from headrace.queue_stores.memory.spill_files import SpillFiles
from headrace.queue_stores.memory.spill_order import AllQueues, SpillOrder

_logger = logging.getLogger(__name__)
SPILL_SHARE = 0.75
"""Share of the limit above which messages are written to disk."""
LOW_SHARE = 0.7
"""Share of the limit down to which they are written."""
WRITE_BYTES = 2 * 1024 * 1024
"""Bytes of memory of the messages of one write, or a little more."""
KEPT_SHARE = 1 / 16
"""Share of the limit for extents read back, however short memory is.

As much again is for extents that are being read. At least one extent is allowed in each case.
"""
RETRY_SECONDS = 1.0
"""Seconds after a failed write until the next one.

Also until all queues are checked again if there was nothing to write: a queue may have been in the
middle of a purge.
"""


class Spill:
    """The spiller of one broker: writes queues' messages to disk while memory is short."""

    def __init__(
        self,
        use: MemoryUse,
        files: SpillFiles,
        deadlines: Deadlines,
        queues: AllQueues,
        extent_bytes: int = EXTENT_BYTES,
    ) -> None:
        """Create the spiller. `queues` returns all queues of the broker."""
        self.extent_bytes = extent_bytes
        self.extent_bytes_min = int(MIN_SHARE * extent_bytes)
        self._use = use
        self._files = files
        self._order = SpillOrder(queues, self.extent_bytes_min)
        self._deadline = deadlines.deadline(self._run)
        self._retry = deadlines.deadline(self._try_again)
        self._due = False
        self._short = False
        """Whether messages are written until memory is down to the low mark."""
        self._writing = False
        self._resting = False
        """Whether a write failed and the next one is not due yet."""
        self._failed = False
        """Whether no write has succeeded since a failure."""
        self._moves = True
        """Whether files may be compacted; a failed move waits for a successful write."""
        self._unwritten: Sequence[Extent] = ()
        """Extents of a failed write."""
        self._waiting: dict[Extent, None] = {}
        """Extents to be read back, in the order of requests."""
        self._loading: dict[Extent, None] = {}
        self._loading_bytes = 0
        self._kept: dict[Extent, None] = {}
        """Extents on disk whose messages are in memory, the last used one last."""
        self._kept_bytes = 0
        self._closed = False
        self._low = int(LOW_SHARE * use.bytes_max)
        self._kept_bytes_max = int(KEPT_SHARE * use.bytes_max)
        use.spill = self
        use.spill_at = int(SPILL_SHARE * use.bytes_max)

    def close(self, done: Callable[[], None]) -> None:
        """Stop writing and reading, and delete the files."""
        self._closed = True
        self._waiting.clear()
        self._files.close(done)

    # Writing

    def note_grown(self, store: Spillable) -> None:
        """Have messages written, perhaps of this store. Implements `memory_use.SpillPort`."""
        self._order.put(store)
        self._soon()

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self._deadline.set(0)

    def _run(self) -> None:
        self._due = False
        use = self._use
        self._let_kept_go()
        if not self._short and use.bytes > use.spill_at:
            self._short = True
            self._order.begin()
        elif self._short and use.bytes <= self._low:
            self._short = False
            self._order.end()
        if self._writing or self._resting or self._closed:
            return
        self._unwritten = [extent for extent in self._unwritten if extent.left]
        if self._unwritten:
            self._write(self._unwritten)
        elif self._short and self._order.look():
            self._soon()
        elif self._short and (extents := self._cut()):
            self._write(extents)
        else:
            if self._short:
                self._retry.set(RETRY_SECONDS)
            if self._moves and self._files.is_wasteful:
                self._writing = True
                self._files.move(self._moved)

    def _cut(self) -> list[Extent]:
        """Take messages from the largest stores, as extents to be written next."""
        extents: list[Extent] = []
        size = min(self._use.bytes - self._low, WRITE_BYTES)
        while size > 0 and (store := self._order.take()) is not None:
            found = store.cut(size)
            if found:
                self._order.put(store)
            extents += found
            size -= sum([extent.full for extent in found])
        return extents

    def _write(self, extents: Sequence[Extent]) -> None:
        if not self._files and not self._failed:
            _logger.info(
                "AMQP messages in memory use %d bytes: messages above %d bytes are written to %s",
                self._use.bytes, self._low, self._files.directory,
            )  # fmt: skip
        self._writing = True
        self._files.write(extents, partial(self._written, extents))

    def _written(self, extents: Sequence[Extent], error: OSError | None) -> None:
        self._writing = False
        if error is None:
            self._unwritten = ()
            self._moves = True
            for extent in extents:
                extent.owner.written(extent)
            if self._failed:
                self._failed = False
                _logger.info("AMQP messages are written to %s again", self._files.directory)
            self._use.look()
        else:
            self._unwritten = extents
            self._resting = True
            self._retry.set(RETRY_SECONDS)
            if not self._failed:
                self._failed = True
                _logger.error(
                    "AMQP messages cannot be written to %s: %s. They stay in memory, and publishers"
                    " are paused above amqp.memory.bytes.max=%d. Free space on the disk; retrying"
                    " each second",
                    self._files.directory, error, self._use.bytes_max,
                )  # fmt: skip
        self._soon()

    def _moved(self, error: OSError | None) -> None:
        self._writing = False
        self._moves = error is None  # the next read or write meets the error, and logs it
        self._soon()

    def _try_again(self) -> None:
        self._resting = False
        if self._short:
            self._order.begin()
        self._run()

    # Reading

    def load(self, extent: Extent) -> None:
        """Read an extent of messages back from disk. Implements `memory_use.SpillPort`."""
        if extent not in self._loading and not self._closed:
            self._waiting[extent] = None
            self._load()

    def load_ahead(self, extent: Extent) -> None:
        """Read an extent back if there is memory for it. Implements `memory_use.SpillPort`."""
        if self._use.bytes + self._loading_bytes + extent.full <= self._use.spill_at:
            self.load(extent)

    def _load(self) -> None:
        while self._waiting:
            extent = next(iter(self._waiting))
            if self._loading and self._loading_bytes + extent.full > self._kept_bytes_max:
                return
            del self._waiting[extent]
            if extent.left:
                self._loading[extent] = None
                self._loading_bytes += extent.full
                self._files.read(extent, partial(self._loaded, extent))

    def _loaded(self, extent: Extent, content: Content | Exception) -> None:
        del self._loading[extent]
        self._loading_bytes -= extent.full
        if extent.left and not self._closed:
            if isinstance(content, Exception):
                extent.owner.failed(content)
            else:
                extent.take(content)
                self.note_used(extent)
                extent.owner.loaded(extent)
                if self._use.bytes > self._use.spill_at:
                    self._soon()
        self._load()

    def note_used(self, extent: Extent) -> None:
        """Note a use of an extent's messages. Implements `memory_use.SpillPort`."""
        if extent in self._kept:
            del self._kept[extent]
        else:
            self._kept_bytes += extent.full
        self._kept[extent] = None

    def released(self, extent: Extent) -> None:
        """Note that an extent's messages were freed. Implements `memory_use.SpillPort`."""
        if extent in self._kept:
            del self._kept[extent]
            self._kept_bytes -= extent.full

    def gone(self, extent: Extent) -> None:
        """Free an extent whose messages are all settled. Implements `memory_use.SpillPort`."""
        self.released(extent)
        self._files.free(extent)
        if self._files.is_wasteful:
            self._soon()

    def _let_kept_go(self) -> None:
        """Free read-back extents, least recently used first, while memory is short."""
        use, kept = self._use, self._kept
        while use.bytes > use.spill_at and len(kept) > 1:
            if self._kept_bytes <= self._kept_bytes_max:
                return
            extent = next(iter(kept))
            extent.owner.release(extent)
