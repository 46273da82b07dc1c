"""A queue's log begun with: what is settled is read, and what is not is counted."""

from typing import TYPE_CHECKING

from headrace.log.text_files import read_file
from headrace.model.errors import HeadraceError
from headrace.ports.callbacks import Done
from headrace.queues.message_store import Kept
from headrace.queues.stores.log.message_reader import MessageReader, Read, as_error

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock
    from headrace.ports.disk import Disk
    from headrace.queues.stores.log.settlement import Settlement


class LogLoading:
    """Loads the settlement of one partition, once."""

    def __init__(
        self,
        partition: "Partition",
        settlement: "Settlement",
        reader: MessageReader,
        disk: "Disk",
        clock: "Clock",
        *,
        drops_transient: bool,
    ) -> None:
        """`drops_transient`: messages that were not to outlive the broker are settled."""
        self._partition = partition
        self._settlement = settlement
        self._reader = reader
        self._disk = disk
        self._clock = clock
        self._drops_transient = drops_transient
        self._dropped: list[int] = []

    def load(self, done: Done[Kept | HeadraceError], settled: bytes | None = None) -> None:
        """Tell `done` what there is, or why that cannot be known.

        `settled`: what the file of what is settled holds; None: it is to be read.
        """
        settlement, disk = self._settlement, self._disk

        def have_read(content: bytes | BaseException | None) -> None:
            if isinstance(content, BaseException):
                done(as_error(content))
                return
            handed_out = settlement.load(content or b"")
            if self._drops_transient and settlement.transient:
                settlement.count_anew()  # else what was counted has none, what was not may have
            self._count(handed_out, self._partition.readable_end(True), done)

        if settled is not None:
            have_read(settled)
        elif disk.exists(settlement.path):
            disk.run(lambda: read_file(disk, settlement.path), have_read)
        else:
            have_read(None)

    def _count(self, handed_out: int, end: int, done: Done[Kept | HeadraceError]) -> None:
        """Count what is committed and not counted yet, stretch by stretch."""

        def counted(read: Read | HeadraceError, later: bool) -> None:
            if isinstance(read, HeadraceError):
                done(read)
                return
            if self._drops_transient:
                read = self._without_transient(read)
            settlement.count_found(read.found, read.following)
            # A turn for others after each stretch: there may be very many.
            self._clock.call_later(0, lambda: self._count(handed_out, end, done))

        settlement = self._settlement
        waiting = settlement.waiting
        if waiting.counted_to < end:
            self._reader.read(waiting.counted_to, end, counted)
            return
        if self._drops_transient and (self._dropped or settlement.transient):
            settlement.drop_transient(self._dropped)
        kept = Kept(
            start=settlement.mark,
            ready=waiting.messages,
            ready_bytes=waiting.body_bytes,
            handed_out=handed_out,
            returns=dict(settlement.returns),
            expiring=settlement.expiring,
        )
        done(kept)

    def _without_transient(self, read: Read) -> Read:
        found = read.found
        transient = set(found.transient)
        if not transient:
            return read
        # Until they are settled, all is to be counted anew by who loads it next.
        self._settlement.note_transient()
        self._dropped += found.transient
        return Read(found.without(transient), read.following)
