"""`Conversation`: requests of one kind to one peer, batched, bounded, and closed together.

                 a request is free               the peer answers
      ask() ──► WAITING ──────────────► IN FLIGHT ──────────────► done(answer)
        │        │    ▲                  │  │  │
        │        │    └── a bug: put back┘  │  └─ ClientError, Malformed ─► done(NETWORK_EXCEPTION)
        │        │                          └──── ApiError ──────────────► done(that error)
        │        └──────── close() ──────► done(NETWORK_EXCEPTION) ◄── close()
        └─ more than `waiting_max` wait, or closed ──► done(NETWORK_EXCEPTION)

A question is one item of a request, for example one partition. `done` is called once for each.
NETWORK_EXCEPTION means that the question may or may not have been carried out.

Questions of one group that wait while all permitted requests are in flight, or that are asked in
one turn of the event loop, are sent in one request, in the order of asking; two with the same key
are never in one request. So a slow peer receives fewer and larger requests.

A conversation retries only if its exchange does (`Peer.ask_until_answered`), where a request must
arrive. Otherwise the caller retries (`shards.ask_leader`), as another broker may be
the right one by then. A conversation is closed when the broker's registration ends
(`registrations`).
"""

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.client.calls.call import Call
from headrace.client.transport.peer import Peer
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done
from headrace.replication.fetch_dependencies import Running

Q = TypeVar("Q")
A = TypeVar("A")

Codes = dict[TopicPartition, ErrorCode]
Run = Callable[[Coroutine[Any, Any, None]], Running]
Exchange = Callable[[Peer, Sequence[Q]], Awaitable[Sequence[A | ApiError]]]
"""Sends questions to the peer and returns their answers in the same order."""


class Limits(NamedTuple):
    """Bounds on the requests and the waiting questions of a conversation."""

    requests_max: int = 1
    """Requests in flight at most."""
    questions_max: int = 1000
    """Questions in one request at most."""
    waiting_max: int | None = 100_000
    """Questions that may wait for a request; None: no bound, as each of them must arrive."""


DEFAULT_LIMITS = Limits()


def one_request(
    call_of: Callable[[Sequence[Q]], Call[Sequence[A]]],
) -> Callable[[Peer, Sequence[Q]], Awaitable[Sequence[A]]]:
    """Return an exchange that sends all questions in one request, without a retry."""

    async def exchange(peer: Peer, questions: Sequence[Q]) -> Sequence[A]:
        return await peer.ask(call_of(questions))

    return exchange


def all_together(question: object) -> None:
    """Return the same group, None, for each question: any questions may share a request."""


class _Asked(NamedTuple, Generic[Q, A]):
    question: Q
    done: Done[A | ApiError]


class Conversation(Generic[Q, A]):
    """Questions of one kind to one peer, with their callbacks. Called on the deciding thread."""

    def __init__(
        self,
        peer: Peer,
        exchange: Exchange[Q, A],
        run: Run,
        *,
        key_of: Callable[[Q], Hashable] = id,
        group_of: Callable[[Q], Hashable] = all_together,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Create an open conversation. It owns `peer` and closes it.

        `run` starts a task on the loop.

        `key_of` returns the key by which answers in one response are matched to questions;
        `group_of` returns a value that is equal for questions that may share a request.
        """
        self._peer = peer
        self._exchange = exchange
        self._run = run
        self._key_of = key_of
        self._group_of = group_of
        self._limits = limits
        self._waiting: list[_Asked[Q, A]] = []
        self._in_flight: dict[int, Sequence[_Asked[Q, A]]] = {}
        """Questions in flight, by the number of the worker task that sent them."""
        self._workers: dict[int, Running] = {}
        self._number = 0
        self._starting = False
        """Whether a worker task was started that has not taken a request yet."""
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether each question has its answer."""
        return not self._waiting and not self._in_flight

    def ask(self, question: Q, done: Done[A | ApiError]) -> None:
        """Queue a question; `done` is called once, with the answer or an error.

        `done` is called before this returns, with NETWORK_EXCEPTION, if the conversation is closed
        or `waiting_max` questions wait.
        """
        limit = self._limits.waiting_max
        if self._closed:
            done(_lost("the broker is not asked any more"))
        elif limit is not None and len(self._waiting) >= limit:
            done(_lost(f"{limit} questions to the broker wait already"))
        else:
            self._waiting.append(_Asked(question, done))
            self._begin_worker()

    def close(self) -> None:
        """Cancel all requests; each question without an answer ends with NETWORK_EXCEPTION."""
        self._closed = True
        workers, self._workers = self._workers, {}
        for worker in workers.values():
            worker.cancel()
        self._peer.close()
        untold = [asked for request in self._in_flight.values() for asked in request]
        untold += self._waiting
        self._in_flight, self._waiting = {}, []
        for asked in untold:
            asked.done(_lost("the broker is not asked any more"))

    def _begin_worker(self) -> None:
        """Start a worker task for waiting questions, unless one is starting or all are in use."""
        if self._starting or len(self._workers) >= self._limits.requests_max:
            return
        self._starting = True
        self._number += 1
        self._workers[self._number] = self._run(self._work(self._number))

    async def _work(self, number: int) -> None:
        """Send requests until no question waits."""
        self._starting = False
        try:
            while request := self._next_request():
                self._in_flight[number] = request
                if self._waiting:
                    self._begin_worker()
                answers = await self._answers([asked.question for asked in request])
                del self._in_flight[number]
                for asked, answer in zip(request, answers, strict=True):
                    asked.done(answer)
        finally:
            # An unexpected exception puts the questions back; the next `ask` starts a worker for
            # them.
            self._waiting[:0] = self._in_flight.pop(number, ())
            self._workers.pop(number, None)

    async def _answers(self, questions: Sequence[Q]) -> Sequence[A | ApiError]:
        """Exchange questions for answers; an error becomes the answer of each question."""
        try:
            return await self._exchange(self._peer, questions)
        except (ClientError, Malformed) as error:
            return [_lost(str(error))] * len(questions)
        except ApiError as error:
            return [error] * len(questions)

    def _next_request(self) -> Sequence[_Asked[Q, A]]:
        """Remove the first waiting question and those that may share its request; return them."""
        taken: dict[Hashable, _Asked[Q, A]] = {}
        left: list[_Asked[Q, A]] = []
        for asked in self._waiting:
            group = self._group_of(asked.question)
            if not taken:
                first = group
            key = self._key_of(asked.question)
            if group != first or key in taken or len(taken) >= self._limits.questions_max:
                left.append(asked)
            else:
                taken[key] = asked
        self._waiting = left
        return list(taken.values())


def _lost(why: str) -> ApiError:
    return ApiError(ErrorCode.NETWORK_EXCEPTION, why)
