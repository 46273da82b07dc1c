"""A case: steps on channel 1 of one or two connections, the last of which is refused."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.outside.amqp import frames


class Step(NamedTuple):
    """Frames sent at once, and the method that has to come back before the next step."""

    name: str
    """Of the first frame's method, or of what it is in place of one."""
    data: bytes
    answered: str | None = None
    connection: int = 0


class Case(NamedTuple):
    """What is done, and the steps that do it; who does it."""

    name: str
    steps: Sequence[Step]
    user: str = "guest"
    password: str = "guest"
    opened: bool = True
    """Whether hands are shaken and the channel is opened before; else the steps begin with that."""


def ask(method: Any, connection: int = 0, channel: int = 1) -> Step:
    """A method that is answered by its own `-ok`, if it is a synchronous one."""
    name = frames.method_name(method)
    answered = f"{name}-ok" if method.synchronous else None
    if name == "basic.get":
        answered = "basic.get-empty"
    return Step(name, frames.method(method, channel), answered, connection)


def publish(
    method: Any, payload: bytes = b"", answered: str | None = None, **properties: Any
) -> Step:
    """A publish with its content."""
    return Step("basic.publish", frames.content(method, payload, properties), answered)


def raw(name: str, data: bytes, answered: str | None = None) -> Step:
    """Bytes that no client would send."""
    return Step(name, data, answered)
