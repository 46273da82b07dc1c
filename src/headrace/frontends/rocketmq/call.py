"""A request of a connection, and its answer."""

from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused, refusal_of
from headrace.model.errors import ApiError, HeadraceError
from headrace.operations.permissions import AdminOperation
from headrace.security.authorizer import CLUSTER_NAME
from headrace.security.identity import Identity
from headrace.subscriptions.members import MemberConnection
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import CommandFlag, RemotingCommand, encode_command
from headrace.wire.rocketmq.sent_messages import MessageIllegal

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.serving import ServedBroker
    from headrace.net.pending import Pending
    from headrace.operations.context import OperationContext
    from headrace.ports.callbacks import Done
    from headrace.ports.disk import Buffer

NO_FIELDS: Mapping[str, str] = {}
Push = Callable[["list[Buffer]"], None]


class RemotingPeer(NamedTuple):
    """The client at the other end of a connection, and this end as the client knows it."""

    identity: Identity
    born_host: bytes
    """Its address and port, as messages have them."""
    endpoint: str
    """The `host:port` at which it reaches this broker, for routes."""
    store_host: bytes
    """The same as messages have it; zeros if the host is a name."""


class RemotingClientSide(MemberConnection, Hashable, Protocol):
    """A client's connection. Implemented by `session.RemotingSession`."""

    client_id: str
    """The client's own id, as its last heartbeat says."""
    language: str
    """The language of the client, as its last heartbeat says."""
    version: int
    """The version of the client, as its last heartbeat says: RocketMQ's number of a release."""
    identity: Identity
    """The client's identity, by its certificate or as it signed its last heartbeat."""

    @property
    def address(self) -> str:
        """The client's `host:port`."""

    @property
    def peer(self) -> RemotingPeer:
        """The client, and this end as it knows it."""

    def has_room(self, again: Callable[[], None]) -> bool:
        """Return whether the client reads its answers; if not, `again` is called when it has."""

    def request(self, code: RequestCode, fields: Mapping[str, str], body: bytes = b"") -> None:
        """Send the client a one-way request."""

    def ask(
        self,
        code: RequestCode,
        fields: Mapping[str, str],
        body: bytes,
        seconds: float,
        done: "Done[RemotingCommand | BaseException]",
    ) -> None:
        """Send a request to the client; `done` gets its answer, or RequestRefused.

        RequestRefused: no answer within `seconds`, or the connection is closed.
        """


class RemotingCall:
    """A request. It is answered once; a second answer, and that of a one-way request, is dropped.

    Answers leave when they are ready, in any order: clients match them by `opaque`.
    """

    __slots__ = (
        "_ended", "_push", "broker", "client", "command", "error_fields", "peer", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        broker: "ServedBroker",
        client: RemotingClientSide,
        peer: RemotingPeer,
        command: RemotingCommand,
        push: Push,
        ended: Callable[["RemotingCall"], None],
    ) -> None:
        """`push` sends the parts of a frame; `ended` is called once, with the answer, also that
        of a one-way request."""
        self.broker = broker
        self.client = client
        self.peer = peer
        self.command = command
        self.waiting: Pending | None = None
        """The wait of a parked pull, which ends with the connection."""
        self.error_fields: Mapping[str, str] = NO_FIELDS
        """Fields that an answer with an error has in addition."""
        self._push: Push | None = push
        self._ended = ended

    @property
    def identity(self) -> Identity:
        """The client's identity."""
        return self.peer.identity

    @property
    def is_answered(self) -> bool:
        """Whether nothing more can be answered: it was, or the connection is closed."""
        return self._push is None

    def answer(self, answer: RemotingAnswer) -> None:
        """Answer the request."""
        if self._push is None:
            return
        command, code = self.command, answer.code
        if code:
            self.broker.counts.answered(command.code, code)
        if command.is_one_way:
            self.answer_frame([])
            return
        flag, fields, body, remark = CommandFlag.RESPONSE, answer.fields, answer.body, answer.remark
        answered = RemotingCommand(code, command.opaque, flag, fields, body, remark)
        self.answer_frame(list(encode_command(answered)))

    def answer_frame(self, frame: "list[Buffer]") -> None:
        """Answer the request with an encoded command."""
        push, self._push = self._push, None
        if push is None:
            return
        if not self.command.is_one_way:
            push(frame)
        self._ended(self)

    def fail(self, error: HeadraceError) -> None:
        """Answer the request with an error."""
        if isinstance(error, RequestRefused):
            answer = error.answer
        elif isinstance(error, ApiError):
            answer = refusal_of(error)
        elif isinstance(error, MessageIllegal):
            answer = RemotingAnswer(ResponseCode.MESSAGE_ILLEGAL, None, b"", str(error))
        else:
            answer = RemotingAnswer(ResponseCode.SYSTEM_ERROR, None, b"", str(error))
        if self.error_fields:
            answer = answer._replace(fields={**(answer.fields or {}), **self.error_fields})
        self.answer(answer)

    def work(self, work: Coroutine[Any, Any, RemotingAnswer | None]) -> None:
        """Do what takes time beside other requests; its answer, or its error, is the answer."""
        self.broker.work(self._answered(work))

    async def _answered(self, work: Coroutine[Any, Any, RemotingAnswer | None]) -> None:
        try:
            answer = await work
        except HeadraceError as error:
            self.fail(error)
        else:
            if answer is not None:
                self.answer(answer)

    def require_admin(self, operation: AdminOperation, name: str = CLUSTER_NAME) -> None:
        """Raise ApiError, and audit it, if the client may not do an administrative operation."""
        self.context().require(operation, name)

    def change(
        self, detail: Mapping[str, object], work: Coroutine[Any, Any, None], answer: RemotingAnswer
    ) -> None:
        """Do an administrative change beside other requests, write its audit line, and answer.

        The client may do it: `require_admin` comes before. `detail`: the fields of the line.
        """
        self.work(self._changed(detail, work, answer))

    async def _changed(
        self, detail: Mapping[str, object], work: Coroutine[Any, Any, None], answer: RemotingAnswer
    ) -> RemotingAnswer:
        try:
            await work
        except ApiError as error:
            self.context().changed(error, detail)
            raise
        self.context().changed(None, detail)
        return answer

    def context(self) -> "OperationContext":
        """Return the context of an administrative operation, in this request's name."""
        return self.broker.operation(self.identity, RequestCode(self.command.code).name)

    def abandon(self) -> None:
        """Drop the request, whose connection is closed."""
        self._push = None
        if self.waiting is not None:
            self.waiting.abandon()
