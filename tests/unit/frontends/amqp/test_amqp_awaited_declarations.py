"""Connections wait for the declarations of a cluster, for a bounded time."""

from headrace.frontends.amqp.connection.awaited_declarations import (
    LOAD_SECONDS_MAX,
    LOOK_SECONDS,
    AwaitedDeclarations,
)
from headrace.frontends.amqp.connection.input_holds import InputHolds
from headrace.testing.clock import SimClock


class Waiting:
    """A connection, and declarations that are loaded or not."""

    def __init__(self, *, loaded: bool = False) -> None:
        self.loaded = loaded
        self.clock = SimClock()
        self.connection = InputHolds(lambda: None)
        AwaitedDeclarations(self.clock, lambda: self.loaded).hold(self.connection)

    @property
    def is_held(self) -> bool:
        return self.connection.count > 0


def test_connection_does_not_wait_for_loaded_declarations() -> None:
    assert not Waiting(loaded=True).is_held


def test_connection_waits_until_declarations_are_loaded() -> None:
    waiting = Waiting()
    waiting.clock.advance(1)
    assert waiting.is_held
    waiting.loaded = True
    waiting.clock.advance(2 * LOOK_SECONDS)
    assert not waiting.is_held


def test_connection_waits_for_a_bounded_time() -> None:
    waiting = Waiting()
    waiting.clock.advance(LOAD_SECONDS_MAX - 2 * LOOK_SECONDS)
    assert waiting.is_held
    waiting.clock.advance(4 * LOOK_SECONDS)
    assert not waiting.is_held
