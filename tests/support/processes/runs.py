"""Requests answered in runs, and the same requests answered one by one."""

import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.dispatch import Dispatcher, KafkaSession
from headrace.net.pending import Pending
from headrace.net.session import CloseConnection
from headrace.security.identity import ANONYMOUS
from tests.support.processes.broker import Room, until


@dataclass
class Outcome:
    """What a stream of requests led to."""

    answers: bytes
    """All of them; in place of topics' ids their names."""
    ended: bool
    """Whether the connection was."""
    runs: int
    batches: int = 0
    """Appended to logs, where a test counts them."""
    state: list[Any] = field(default_factory=list)
    """All that must be the same, whichever way it came about."""


def session_of(here: Room, api: Api) -> tuple[Dispatcher, KafkaSession]:
    """A connection's session with a front end that serves only `api`; stop the dispatcher."""
    dispatcher = Dispatcher(
        here.broker, here.coordinators, here.controller, [api], here.broker.metrics
    )
    nobody: Any = SimpleNamespace(
        address="127.0.0.1", listener="PLAINTEXT", port=1, principal=ANONYMOUS
    )
    return dispatcher, KafkaSession(dispatcher, nobody)


async def serve(
    here: Room, api: Api, sent: bytes, ids: Mapping[str, bytes], in_runs: bool
) -> Outcome:
    """What a connection does with what one read brought."""
    dispatcher, session = session_of(here, api)
    if not in_runs:
        session._context.offset_commits = None  # each request is decoded
    waiting: list[Any] = []
    view = memoryview(bytearray(sent))
    at, runs, ended = 0, 0, False
    while at < len(view) and not ended:
        end = at + 4 + struct.unpack_from(">i", view, at)[0]
        run = session.run(view, at, len(view)) if in_runs and end + 4 < len(view) else None
        try:
            if run is not None:
                at, _, answer = run
                runs += 1
            else:
                answer, at = session.frame(view[at + 4 : end]), end
        except CloseConnection:
            ended = True
        else:
            waiting.append(answer)
    session.pass_done()
    whole = b"".join([await answered(one) for one in waiting])
    for name, topic_id in ids.items():
        whole = whole.replace(topic_id, name.encode().ljust(16))
    await dispatcher.stop()
    return Outcome(whole, ended, runs)


async def answered(answer: Any) -> bytes:
    """An answer once it is there; nothing where none is asked for."""
    if isinstance(answer, Pending):
        await until(partial(getattr, answer, "done"))
        answer = answer.parts()
    if answer is None:
        return b""
    return answer if isinstance(answer, bytes) else b"".join(answer)


async def same(play_one: Callable[[bool], Awaitable[Outcome]]) -> Outcome:
    """What came of it in runs, which is what came of it one by one."""
    alone = await play_one(False)
    together = await play_one(True)
    assert together.answers == alone.answers
    assert together.ended == alone.ended
    assert together.state == alone.state
    assert alone.runs == 0
    return together
