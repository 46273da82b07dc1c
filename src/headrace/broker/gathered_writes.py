"""`GatheredWrites`: the appends of one pass over a connection's requests, one write per file."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.log.directory.log_directory import LogDirectory
    from headrace.ports.disk import Failures, GatheringDisk


def _nothing() -> None:
    """Do nothing: no caller waits for the end of a pass."""


class GatheredWrites:
    """Delayed writes of a pass; a failed write fences its log directory."""

    def __init__(self, disk: "GatheringDisk", directories: "Sequence[LogDirectory]") -> None:
        self.begin: Callable[[], None] = disk.begin_gather
        """Delay writes from now on; may be called repeatedly."""
        self._end = disk.end_gather
        self.ended: Callable[[], None] = _nothing
        """Called after the writes of each pass."""
        self._directories = directories

    def end(self, later: Callable[[bool], None]) -> bool | None:
        """Perform the writes. True: some failed, and their log directories are fenced.

        False: all succeeded. None: a thread performs them, and `later` gets the result, in the
        order of the passes.
        """
        failed = self._end(lambda failures: later(self._fence(failures)))
        self.ended()
        if failed:
            return self._fence(failed)
        return None if failed is None else False

    def _fence(self, failures: "Failures") -> bool:
        for path, error in failures:
            for directory in self._directories:
                if path.startswith(directory.path + "/"):
                    directory.context.fail(error, path)
        return bool(failures)
