"""What the logs of all durable queues of a broker share, and the end of a pass over frames."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.queues.stores.log.message_window import WindowsBytes
from headrace.queues.stores.log.settled_files import SettledFiles
from headrace.queues.stores.memory.memory_use import MemoryUse

if TYPE_CHECKING:
    from headrace.ports.clock import Clock
    from headrace.queues.stores.log.durable_messages import DurableMessages

AskForLog = Callable[["DurableMessages"], None]
"""Has the log of a store made and `have_log` called."""


class Appended(Protocol):
    """What has taken messages and not written them yet."""

    def write(self) -> None:
        """Write what was appended."""


class QueueLogs:
    """What the stores of all durable queues of a broker share."""

    def __init__(
        self,
        files: SettledFiles,
        clock: "Clock",
        ask_for_log: AskForLog,
        memory: MemoryUse | None = None,
    ) -> None:
        """`memory` counts what waits for a log, and a broker's queues in memory."""
        self.files = files
        self.clock = clock
        self.ask_for_log = ask_for_log
        self.windows = WindowsBytes()
        self.memory = memory or MemoryUse()
        self.appended: list[Appended] = []
        """Those that have something to write."""
        self.crowded: list[DurableMessages] = []
        """Those that too much waits for since who published was last held up."""

    def hold_up(self, go_on: Callable[[], None]) -> int:
        """Call `go_on` as each crowded log is there, or never will be; returns how many are."""
        crowded, self.crowded = self.crowded, []
        waiting = [messages for messages in crowded if messages.is_crowded]
        for messages in waiting:
            messages.held_up.append(go_on)
        return len(waiting)

    def write(self) -> None:
        """Write what the pass has brought."""
        appended, self.appended = self.appended, []
        for messages in appended:
            messages.write()
