"""Scenarios: a client's actions at a broker's address, named by the claim that has to hold."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Play = Callable[[Any], None]
"""Plays a scenario at the address that the protocol's brokers give."""
WAIT_SECONDS_MAX = 20.0


class Skipped(Exception):
    """A scenario cannot be played here: a language that is not installed."""


class Scenario(NamedTuple):
    """A scenario of one client."""

    client: str
    topic: str
    """The row of the matrix."""
    claim: str
    play: Play


class Scenarios(list[Scenario]):
    """A client's scenarios, in the order of their files; decorates the functions that play them."""

    def __init__(self, client: str, topic: str | None = None) -> None:
        super().__init__()
        self.client = client
        self._topic = topic

    def __call__(self, play: Play) -> Play:
        """Add a function, under the topic or the name of its file."""
        topic = self._topic or play.__module__.rpartition(".")[2]
        self.append(Scenario(self.client, topic, play.__name__.replace("_", " "), play))
        return play


class Raised:
    """An error that came."""

    error: Any = None


@contextmanager
def raises(*kinds: type[Exception]) -> Iterator[Raised]:
    """Expect an error, which is there afterwards. AssertionError where none comes."""
    raised = Raised()
    try:
        yield raised
    except kinds as error:
        raised.error = error
    else:
        raise AssertionError(f"{kinds[0].__name__} was expected, and nothing was refused")


def eventually(holds: Callable[[], object], because: str) -> None:
    """Wait until something holds. AssertionError."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"never came: {because}"
        time.sleep(0.02)
