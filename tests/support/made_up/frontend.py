"""The frontend of the protocol: each line is answered, and its topic keeps nothing."""

from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError
from headrace.net.connection import Connection
from headrace.net.pending import Pending
from headrace.operations.permissions import Caller
from headrace.security.identity import Identity
from headrace.server.frontends import Parts
from tests.support.made_up.operations import ForgetLine, Lines, ListLines
from tests.support.made_up.row import ROW
from tests.support.made_up.settings import EchoKeys

TOPIC = "__echo.lines"


class Echo:
    """A connection. `net.stream.StreamSession`."""

    def __init__(self, frontend: "EchoFrontend", connection: Connection) -> None:
        self._frontend = frontend
        self._stream = connection.stream(self)
        connection.authenticated = True

    def frames(self, view: memoryview, at: int, filled: int) -> int:
        """Answer each whole line."""
        *lines, _ = bytes(view[at:filled]).split(b"\n")
        for line in lines:
            self._frontend.lines.append(line.decode())
            self._stream.push(f"{self._frontend.greeting}: ".encode() + line + b"\n")
            at += len(line) + 1
        return at

    def need(self, view: memoryview, at: int, filled: int) -> int:
        """Return that one byte more may end the line."""
        return filled - at + 1

    def room(self) -> None:
        """Do nothing: lines are few."""

    def pass_done(self) -> Pending | None:
        """Return that nothing is written."""
        return None

    def closed(self) -> None:
        """Do nothing."""


class EchoFrontend:
    """All connections. `server.frontends.OtherFrontend`, `broker.topic_keepers.TopicKeeper`."""

    def __init__(self, parts: Parts) -> None:
        self._controller = parts.controller
        self.greeting = EchoKeys.of(parts.broker.config.values).echo_greeting
        self.lines: list[str] = []
        assert ROW.topics is not None
        parts.broker.topic_keepers.add(ROW.topics, self)
        parts.operations.add({ListLines: self._list, ForgetLine: self._forget})

    def open(self, connection: Connection) -> Echo:
        """Return a session for a new connection."""
        return Echo(self, connection)

    async def start(self) -> None:
        """Make the protocol's topic."""
        await self._controller.create_topics([NewTopic(TOPIC)])

    async def stop(self) -> None:
        """Do nothing."""

    async def _list(self, caller: Caller, asked: ListLines) -> Lines:
        return Lines(tuple(self.lines))

    async def _forget(self, caller: Caller, asked: ForgetLine) -> int:
        said = self.lines.count(asked.line)
        self.lines = [line for line in self.lines if line != asked.line]
        return said

    # what Kafka's clients ask of the topic

    async def make(self, topic: str) -> ApiError | None:
        """Do nothing: it exists."""
        return None

    async def delete(self, topic: str) -> ApiError | None:
        """Note it."""
        self.lines.append(f"deleted {topic}")
        return None

    def may_purge(self, identity: Identity, topic: str) -> bool:
        """Return that nobody may."""
        return False

    async def purge(self, topic: str, partition: int, before: int) -> int:
        """Do nothing."""
        return 0


def frontend(parts: Parts) -> EchoFrontend:
    """Make it."""
    return EchoFrontend(parts)
