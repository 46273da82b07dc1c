"""The real file system, its threads replaced by steps: `settle` does what they would."""

from collections.abc import Callable
from typing import Any, cast

from headrace.posix.disk import RealDisk
from headrace.posix.threads import Workers


class _Steps:
    """Stands in for `Workers`: jobs wait in a list."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def flush(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        def step() -> None:
            try:
                work()
            except OSError as error:
                done(error)
            else:
                done(None)

        self.waiting.append(step)

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        def step() -> None:
            result: Any
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - handed to who asked
                result = error
            done(result)

        self.waiting.append(step)


class SteppedDisk(RealDisk):
    """`posix.disk.RealDisk` with `SimDisk`'s `settle`."""

    def __init__(self) -> None:
        self._steps = _Steps()
        super().__init__(cast(Workers, self._steps))

    def settle(self) -> int:
        """Do what waits, and what follows from it; how many jobs that were."""
        done = 0
        while self._steps.waiting:
            self._steps.waiting.pop(0)()
            done += 1
        return done
