"""`QueueLogs`: what the stores of all durable queues of a broker share."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.queue_stores.log.copies_port import Copies
from headrace.queue_stores.log.message_window import WindowsBytes
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queue_stores.memory.memory_use import MemoryUse

if TYPE_CHECKING:
    from headrace.ports.clock import Clock
    from headrace.queue_stores.log.durable_messages import DurableMessages
    from headrace.queue_stores.log.open_log import Appended

AskForLog = Callable[["DurableMessages"], None]
"""Creates the log of a store, then calls its `have_log`."""


class Crowded(Protocol):
    """Messages of one queue that wait for its log, for replicas, or for another broker."""

    held_up: list[Callable[[], None]]
    """Callbacks that resume paused publishers."""

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that publishers are paused."""


class QueueLogs:
    """State shared by the stores of all durable queues of a broker."""

    def __init__(
        self,
        files: SettledFiles,
        clock: "Clock",
        ask_for_log: AskForLog,
        memory: MemoryUse | None = None,
        copies: Copies | None = None,
    ) -> None:
        """Create the shared state.

        `memory` counts messages that wait for a log, with those of queues in memory. `copies`: the
        copies of settled positions on other brokers; None: the broker has no cluster.
        """
        self.files = files
        self.copies = copies
        self.clock = clock
        self.ask_for_log = ask_for_log
        self.windows = WindowsBytes()
        self.memory = memory or MemoryUse()
        self.appended: list[Appended] = []
        """Stores with appended messages that are not written yet."""
        self.crowded: list[Crowded] = []
        """Queues with too many waiting messages, since publishers were last paused."""

    def begin_pass(self) -> None:
        """Forget which queues were crowded before this pass: dead letters are of no client.

        A publisher that adds to a crowded queue is paused by its own pass.
        """
        self.crowded.clear()  # not replaced: queues hold the list

    def hold_up(self, go_on: Callable[[], None]) -> int:
        """Call `go_on` for each crowded queue once less waits or it failed; return the number."""
        waiting = [messages for messages in self.crowded if messages.is_crowded]
        self.crowded.clear()  # not replaced: queues hold the list
        for messages in waiting:
            messages.held_up.append(go_on)
        return len(waiting)

    def write(self) -> None:
        """Write the messages that a pass has appended, in the logs of all queues."""
        appended, self.appended = self.appended, []
        for messages in appended:
            messages.write()
