"""`InputHolds`: reasons for which no frames of a connection are handled."""

from collections.abc import Callable


class InputHolds:
    """The holds of one connection's input: logs that are created, commands to a coordinator."""

    def __init__(self, released: Callable[[], None]) -> None:
        """`released` is called when the last hold has ended."""
        self.count = 0
        self._released = released

    def hold(self) -> Callable[[], None]:
        """Hold the input; return the function that ends this hold."""
        self.add(1)
        return self.end

    def add(self, count: int) -> None:
        """Hold the input until `end` was called `count` times."""
        self.count += count

    def end(self) -> None:
        """End one hold."""
        self.count -= 1
        if not self.count:
            self._released()
