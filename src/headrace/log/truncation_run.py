"""`Truncation`: one call of `directory.truncate_logs`, from the refusal of appends to its end.

Imported with the first truncation: brokers outside of a cluster rarely have one.
"""

from collections.abc import Callable, Sequence

from headrace.log import truncation
from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.truncation import BelowHighWatermark, Cut
from headrace.model.errors import StorageError
from headrace.model.invariant import invariant
from headrace.ports.disk import DiskFile

Done = Callable[[BaseException | None], None]
Checkpoint = Callable[[Callable[[bool], None]], None]
_SLICE_LOGS = 20
"""Logs handled in one turn of the event loop, or by one thread job."""
_JOBS = 2
"""Concurrent thread jobs: more of them take the interpreter from the loop (bench.truncations)."""


class Truncation:
    """A single call of `Truncations.truncate` or `reset`. For the deciding thread."""

    def __init__(
        self,
        parts: DirectoryParts,
        checkpoint: Checkpoint,
        cuts: Sequence[Cut],
        done: Done,
        *,
        unclean: bool,
    ) -> None:
        self._parts = parts
        self._checkpoint = checkpoint
        self._cuts = cuts
        self._done = done
        self._unclean = unclean

    def begin(self) -> None:
        """Refuse appends, then truncate once no flush uses the files."""
        for cut in self._cuts:
            invariant(not cut.log.cutting, f"{cut.log!r} is being truncated already")
            cut.log.cutting = True
        self._parts.flusher.after_current(self._plan)

    def _plan(self) -> None:
        def planned() -> None:
            low = [
                str(cut.log)
                for cut in self._cuts
                if not (self._unclean or cut.is_reset or cut.end >= cut.log.high_watermark)
            ]
            if low:
                self._end(
                    BelowHighWatermark(f"committed records would be lost in {', '.join(low)}")
                )
            else:
                self._take(list(self._cuts), [])

        self._each_slice(_plan, planned)

    def _take(self, waiting: list[Cut], files: list[DiskFile]) -> None:
        """Truncate the logs in memory, 20 in each turn of the event loop."""
        parts = self._parts
        if parts.fenced:
            self._failed()
            return
        some, rest = waiting[:_SLICE_LOGS], waiting[_SLICE_LOGS:]
        for cut in some:
            if cut.log.closed:
                continue
            truncation.take(cut, unclean=self._unclean)
            if not cut.is_reset and cut.last < cut.end:
                try:
                    noted = parts.gaps.note(cut.log.topic_partition, cut.offset)
                except OSError as error:
                    parts.context.fail(error, parts.path)
                    self._failed()
                    return
                if noted is not None:
                    files.append(noted)
        parts.bounds.lower([cut.log for cut in some])
        if rest:
            parts.clock.call_later(0, lambda: self._take(rest, files))
        else:
            self._make_durable(files)

    def _make_durable(self, files: Sequence[DiskFile]) -> None:
        """Make lowered checkpoints and read bounds durable; then shorten the files."""
        parts = self._parts

        def write() -> None:
            for file in files:
                file.sync()
                file.close()
            if files:
                parts.disk.sync_directory(parts.path)
            parts.bounds.sync()

        def written(result: BaseException | None) -> None:
            if isinstance(result, OSError):
                parts.context.fail(result, parts.path, flush=True)
                self._failed()
            elif result is not None:
                raise result
            else:
                self._checkpoint(lowered)

        def lowered(is_written: bool) -> None:
            if not is_written or parts.fenced:
                self._failed()
            else:
                self._each_slice(_cut_files, lambda: self._settle(list(self._cuts)))

        parts.disk.run(write, written)

    def _settle(self, waiting: list[Cut]) -> None:
        """Accept appends again, 20 logs in each turn of the event loop."""
        parts = self._parts
        some, rest = waiting[:_SLICE_LOGS], waiting[_SLICE_LOGS:]
        for cut in some:
            if parts.fenced:
                self._failed()
                return
            if cut.log.closed:
                continue
            try:
                flush_due = truncation.settle(cut)
            except (OSError, StorageError) as error:
                if isinstance(error, OSError):
                    parts.context.fail(error, cut.log.directory, flush=True)
                self._failed()
                return
            if flush_due:
                parts.flusher.flush_soon(cut.log)
        if rest:
            parts.clock.call_later(0, lambda: self._settle(rest))
        else:
            self._checkpoint(lambda _: None)
            self._end(None)

    def _each_slice(
        self, work: Callable[[Sequence[Cut]], object], then: Callable[[], None]
    ) -> None:
        """Run `work` on threads for all logs that are not deleted, in slices; then call `then`."""
        parts = self._parts
        waiting = [cut for cut in self._cuts if not cut.log.closed]
        slices = [waiting[at : at + _SLICE_LOGS] for at in range(0, len(waiting), _SLICE_LOGS)]
        running = 0
        failure: BaseException | None = None

        def next_slice() -> None:
            nonlocal running
            if slices and failure is None:
                some = slices.pop()
                running += 1
                parts.disk.run(lambda: work(some), worked)
            elif running == 0 and failure is None:
                then()
            elif running == 0 and failure is not None:
                self._end(failure)

        def worked(result: object) -> None:
            nonlocal running, failure
            running -= 1
            if isinstance(result, OSError):
                failure = parts.context.fail(result, parts.path, flush=True)
            elif isinstance(result, BaseException):
                failure = result
            next_slice()

        for _ in range(max(1, min(_JOBS, len(slices)))):
            next_slice()

    def _failed(self) -> None:
        self._end(self._parts.context.failure)

    def _end(self, result: BaseException | None) -> None:
        for cut in self._cuts:
            if result is None:
                cut.log.cutting = False
            else:
                truncation.abandon(cut)
        self._done(result)


def _plan(cuts: Sequence[Cut]) -> None:
    for cut in cuts:
        try:
            truncation.plan(cut)
        except FileNotFoundError:
            if not cut.log.closed:
                raise


def _cut_files(cuts: Sequence[Cut]) -> None:
    try:
        truncation.cut_files(cuts)
    except FileNotFoundError:
        if not any(cut.log.closed for cut in cuts):
            raise
        # A log was deleted meanwhile: repeat for the others; a repetition changes nothing.
        left = [cut for cut in cuts if not cut.log.closed]
        if left:
            truncation.cut_files(left)
