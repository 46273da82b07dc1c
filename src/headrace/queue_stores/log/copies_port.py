"""The copies of queues' settled positions on other brokers, as the store of a queue sees them."""

from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import HeadraceError
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.queue_stores.log.settled_files import SettledFiles
    from headrace.queue_stores.log.settlement import Settlement
    from headrace.queue_stores.log.settlement_frame import SettlementFrame


class FrameCopies(Protocol):
    """The copies of one queue's frames. Implemented by `copies.queue_copies.QueueCopies`."""

    def taken(self, frame: "SettlementFrame") -> None:
        """Note that a frame is being written here."""

    def written(self, frame: "SettlementFrame") -> None:
        """Copy a frame that is durable here; `Settlement.confirm` is called once all have it."""


class Copies(Protocol):
    """The copies of all queues that a broker leads. Implemented by `copies.Copying`."""

    def newest(self, partition: "Partition", done: Done[bytes | HeadraceError]) -> None:
        """Call `done` with the content of the newest file of a partition's replicas.

        From then on no replica accepts frames of a former leader of the partition.
        """

    def lead(self, partition: "Partition", settlement: "Settlement") -> FrameCopies:
        """Begin to copy the frames of a queue that this broker leads."""

    def end(self, partition: "Partition") -> None:
        """Stop copying: the queue is deleted, or another broker leads it."""


class CopiedFiles(Protocol):
    """A broker's files of settled positions in a cluster. Implemented by `server.cluster`."""

    @property
    def files(self) -> "SettledFiles":
        """The files of queues that this broker leads or follows."""

    @property
    def copying(self) -> Copies:
        """The copies of the queues that this broker leads."""
