"""`Truncations`: truncate many logs of a directory together, on threads.

Appends are refused meanwhile. Checkpoints and read bounds are lowered once for all logs, durably,
before any file is changed, and written again at the end. `truncation_run` has one call from start
to end, `truncation` the steps of one log; both are imported with the first truncation.
"""

from collections.abc import Callable, Sequence

from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.log import Log
from headrace.model.nouns import Offset

Done = Callable[[BaseException | None], None]
Checkpoint = Callable[[Callable[[bool], None]], None]


class Truncations:
    """The truncations of one log directory. For the deciding thread."""

    __slots__ = ("_checkpoint", "_parts", "running")

    def __init__(self, parts: DirectoryParts, checkpoint: Checkpoint) -> None:
        self._parts = parts
        self._checkpoint = checkpoint
        self.running = 0
        """Number of truncations in progress."""

    def truncate(
        self, cuts: Sequence[tuple[Log, Offset]], done: Done, *, unclean: bool = False
    ) -> None:
        """Truncate each log before the batch that contains its offset, on threads.

        The logs accept no appends until `done` is called: with None; BelowHighWatermark if a log
        would lose committed records and the election was not `unclean`; BadBatch if a log is
        damaged (no log was truncated); StorageError if the directory failed.
        """
        shorter = [(log, offset) for log, offset in cuts if offset < log.end_offset]
        self._begin(shorter, done, unclean=unclean)

    def reset(self, starts: Sequence[tuple[Log, Offset]], done: Done) -> None:
        """Empty each log and let it begin at its offset, as its leader's log does.

        As `truncate`; producers and leader epochs are removed too.
        """
        self._begin(starts, done, unclean=True, is_reset=True)

    def _begin(
        self,
        cuts: Sequence[tuple[Log, Offset]],
        done: Done,
        *,
        unclean: bool,
        is_reset: bool = False,
    ) -> None:
        def ended(result: BaseException | None) -> None:
            self.running -= 1
            done(result)

        if self._parts.fenced or not cuts:
            done(self._parts.context.failure)
            return
        from headrace.log.truncation import Cut
        from headrace.log.truncation_run import Truncation

        self.running += 1
        begun = [Cut(log, offset, is_reset=is_reset) for log, offset in cuts]
        Truncation(self._parts, self._checkpoint, begun, ended, unclean=unclean).begin()
