"""Loading of a queue's log: settled positions are read, other messages are counted."""

from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import HeadraceError
from headrace.ports.callbacks import Done, Once
from headrace.queue_stores.log.copies_port import Copies
from headrace.queue_stores.log.message_reader import MessageReader, Read
from headrace.queue_stores.log.settled_files import read_settled
from headrace.queue_stores.message_store import Kept

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock
    from headrace.ports.disk import Disk
    from headrace.queue_stores.log.settlement import Settlement


class LogLoading:
    """Loads the settled positions and message counts of one partition, once."""

    def __init__(
        self,
        partition: "Partition",
        settlement: "Settlement",
        reader: MessageReader,
        disk: "Disk",
        clock: "Clock",
        *,
        drops_transient: bool,
        copies: Copies | None = None,
    ) -> None:
        """Create the loading of a partition.

        `drops_transient`: messages that are not persistent are settled while loading. `copies`: the
        copies of settled positions on other brokers.
        """
        self._partition = partition
        self._settlement = settlement
        self._reader = reader
        self._disk = disk
        self._clock = clock
        self._drops_transient = drops_transient
        self._copies = copies
        self._dropped: list[int] = []
        self._done: Once[Kept | HeadraceError] | None = None
        self._stopped = False

    def stop(self, error: HeadraceError) -> None:
        """Stop reading; `done` gets the error, if the loading has begun and not ended."""
        self._stopped = True
        if self._done is not None:
            self._done(error)

    def load(self, done: Done[Kept | HeadraceError], settled: bytes | None = None) -> None:
        """Load, then call `done` with the contents or the error.

        `settled` is the content of the file of settled positions; None: read it. If other brokers
        may have copies, the newest one is read, and messages that are not persistent stay.
        """
        self._done = done = Once(done)
        if self._copies is not None:
            have_newest = partial(self._have_newest, self._copies, done)
            self._copies.newest(self._partition, have_newest)
        elif settled is not None:
            self._load(settled, done)
        else:
            read_settled(self._disk, self._settlement.path, partial(self._have_own, done))

    def _have_newest(
        self, copies: Copies, done: Done[Kept | HeadraceError], content: bytes | HeadraceError
    ) -> None:
        if isinstance(content, HeadraceError):
            done(content)
            return
        partition = self._partition
        self._settlement.copies = copies.lead(partition, self._settlement)
        self._load(content, done, copied=partition.role.term is not None)

    def _have_own(self, done: Done[Kept | HeadraceError], content: bytes | HeadraceError) -> None:
        if isinstance(content, HeadraceError):
            done(content)
        else:
            self._load(content, done)

    def _load(
        self, content: bytes, done: Done[Kept | HeadraceError], *, copied: bool = False
    ) -> None:
        if self._stopped:
            return
        settlement = self._settlement
        handed_out = settlement.load(content, copied=copied)
        if copied:
            self._drops_transient = False
            settlement.want_whole()
        if self._drops_transient and settlement.transient:
            settlement.count_anew()  # stored counts may include messages that are dropped now
        self._count(handed_out, self._partition.readable_end(True), done)

    def _count(self, handed_out: int, end: int, done: Done[Kept | HeadraceError]) -> None:
        """Count committed messages that are not counted yet, one read after the other."""
        if self._stopped:
            return

        def counted(read: Read | HeadraceError, later: bool) -> None:
            if isinstance(read, HeadraceError):
                done(read)
                return
            if self._stopped:
                return
            if self._drops_transient:
                read = self._without_transient(read)
            settlement.count_found(read.found, read.following)
            # A turn of the loop for others after each read: there may be very many.
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
        # Until they are settled, the next load must count all messages again.
        self._settlement.note_transient()
        self._dropped += found.transient
        return Read(found.without(transient), read.following)
