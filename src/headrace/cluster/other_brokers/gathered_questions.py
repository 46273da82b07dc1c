"""Questions to one other broker, gathered: while one request is under way, all that is to be asked
waits, and goes out together with the next. So their number does not matter, nor how far it is.
"""

from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from headrace.client.calls.call import Call
from headrace.client.client import Client
from headrace.client.transport.port import Address, ClientError
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done
from headrace.replication.fetch_dependencies import Running

Codes = dict[TopicPartition, ErrorCode]


class Question(Protocol):
    """What one asker wants to know."""

    @property
    def key(self) -> Hashable:
        """What the broker tells questions of one request apart by."""


Q = TypeVar("Q", bound=Question)


Run = Callable[[Coroutine[Any, Any, None]], Running]


class GatheredQuestions(Generic[Q]):
    """Questions of one kind to one registration of a broker. On the deciding thread."""

    def __init__(
        self,
        client: Client,
        address: Address,
        call_of: Callable[[Sequence[Q]], Call[Sequence[Codes]]],
        run: Run,
    ) -> None:
        """`client` is its own. `call_of` makes one request; its answers come in the same order."""
        self._client = client
        self._address = address
        self._call_of = call_of
        self._run = run
        self._waiting: list[tuple[Q, Done[Codes | ApiError]]] = []
        self._asked: list[tuple[Q, Done[Codes | ApiError]]] = []
        """What is under way."""
        self._conversation: Running | None = None

    def ask(self, question: Q, done: Done[Codes | ApiError]) -> None:
        """Ask; `done` is called once, later. ApiError NETWORK_EXCEPTION: it may be done, or not."""
        self._waiting.append((question, done))
        if self._conversation is None:
            self._conversation = self._run(self._converse())

    def close(self) -> None:
        """Ask nothing more; who waits is told NETWORK_EXCEPTION."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.cancel()
        self._client.close()
        untold = [*self._asked, *self._waiting]
        self._asked, self._waiting = [], []
        for _, done in untold:
            done(ApiError(ErrorCode.NETWORK_EXCEPTION, f"{self._address} is asked no more"))

    async def _converse(self) -> None:
        while self._waiting:
            self._asked = self._next()
            questions = [question for question, _ in self._asked]
            try:
                link = await self._client.link_to(self._address)
                answers: Sequence[Codes | ApiError] = await self._client.ask(
                    link, self._call_of(questions)
                )
            except (ClientError, Malformed) as error:
                lost = ApiError(ErrorCode.NETWORK_EXCEPTION, str(error))
                answers = [lost] * len(questions)
            except ApiError as error:
                answers = [error] * len(questions)
            asked, self._asked = self._asked, []
            for (_, done), answer in zip(asked, answers, strict=True):
                done(answer)
        self._conversation = None

    def _next(self) -> list[tuple[Q, Done[Codes | ApiError]]]:
        """Take what waits and can be told apart in one request."""
        taken = {}
        left = []
        for question, done in self._waiting:
            if question.key in taken:
                left.append((question, done))
            else:
                taken[question.key] = (question, done)
        self._waiting = left
        return list(taken.values())
