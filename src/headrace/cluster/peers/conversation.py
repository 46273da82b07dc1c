"""A conversation: questions of one kind to one peer, gathered into requests, bounded, closed.

                 a request is free               the peer answers
      ask() ──► WAITING ──────────────► IN FLIGHT ──────────────► done(answer)
        │        │    ▲                  │  │  │
        │        │    └── a bug: put back┘  │  └─ ClientError, Malformed ─► done(NETWORK_EXCEPTION)
        │        │                          └──── ApiError ──────────────► done(that error)
        │        └──────── close() ──────► done(NETWORK_EXCEPTION) ◄── close()
        └─ more than `waiting_max` wait, or closed ──► done(NETWORK_EXCEPTION)

`done` is called once for each question. NETWORK_EXCEPTION says that the question may have been
carried out or not. Questions asked in one turn of the loop, and while all requests that may be in
flight are, go out together: those of one group, each key once, in the order of asking. So a slow
peer costs fewer, larger requests. Retries are the exchange's (`Peer.ask_until_answered`) where a
request must arrive, and otherwise the asker's (`coordination.runtime.ask_leader`), since another
broker may be the one to ask by then.

A conversation ends with the registration of its broker (`registrations`).
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
"""Asks the peer some questions and returns their answers in the same order."""


class Limits(NamedTuple):
    """How much a conversation holds and sends."""

    requests_max: int = 1
    """Requests in flight."""
    questions_max: int = 1000
    """Questions of one request."""
    waiting_max: int | None = 100_000
    """Questions that wait for a request; None where each of them must arrive."""


DEFAULT_LIMITS = Limits()


def one_request(
    call_of: Callable[[Sequence[Q]], Call[Sequence[A]]],
) -> Callable[[Peer, Sequence[Q]], Awaitable[Sequence[A]]]:
    """Return an exchange of one request, sent once."""

    async def exchange(peer: Peer, questions: Sequence[Q]) -> Sequence[A]:
        return await peer.ask(call_of(questions))

    return exchange


def all_together(question: object) -> None:
    """Return the group of a question where one request may hold any of them."""


class _Asked(NamedTuple, Generic[Q, A]):
    question: Q
    done: Done[A | ApiError]


class Conversation(Generic[Q, A]):
    """Questions of one kind to one peer. On the deciding thread."""

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
        """`peer` is the conversation's own. `run` runs an exchange on the loop.

        `key_of` returns what answers of one request are told apart by. `group_of` returns which
        questions may share a request.
        """
        self._peer = peer
        self._exchange = exchange
        self._run = run
        self._key_of = key_of
        self._group_of = group_of
        self._limits = limits
        self._waiting: list[_Asked[Q, A]] = []
        self._in_flight: dict[int, Sequence[_Asked[Q, A]]] = {}
        """By the number of the worker that sent them."""
        self._workers: dict[int, Running] = {}
        self._number = 0
        self._starting = False
        """Whether a worker was begun that has taken no question yet."""
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether every question is answered."""
        return not self._waiting and not self._in_flight

    def ask(self, question: Q, done: Done[A | ApiError]) -> None:
        """Ask; `done` is called once, later. At once where it is closed or too much waits."""
        limit = self._limits.waiting_max
        if self._closed:
            done(_lost("the broker is not asked any more"))
        elif limit is not None and len(self._waiting) >= limit:
            done(_lost(f"{limit} questions to the broker wait already"))
        else:
            self._waiting.append(_Asked(question, done))
            self._begin_worker()

    def close(self) -> None:
        """Ask nothing more; each asker without an answer is told NETWORK_EXCEPTION."""
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
        """Have what waits sent by another worker, unless one is about to look or all are busy."""
        if self._starting or len(self._workers) >= self._limits.requests_max:
            return
        self._starting = True
        self._number += 1
        self._workers[self._number] = self._run(self._work(self._number))

    async def _work(self, number: int) -> None:
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
            # After a bug, which the loop reports, the next question begins a worker for these.
            self._waiting[:0] = self._in_flight.pop(number, ())
            self._workers.pop(number, None)

    async def _answers(self, questions: Sequence[Q]) -> Sequence[A | ApiError]:
        try:
            return await self._exchange(self._peer, questions)
        except (ClientError, Malformed) as error:
            return [_lost(str(error))] * len(questions)
        except ApiError as error:
            return [error] * len(questions)

    def _next_request(self) -> Sequence[_Asked[Q, A]]:
        """Remove and return the questions of the next request, the first that waits among them."""
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
