"""Requests of cold APIs: what each kind of end is answered, counted as, and who hears of it."""

import asyncio
import logging
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.frontends.kafka.connection import cold_calls
from headrace.frontends.kafka.connection.dispatch import Dispatcher, KafkaSession
from headrace.frontends.kafka.connection.registry import APIS
from headrace.frontends.kafka.connection.route import Route
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.invariant import InvariantError
from headrace.net.pending import Pending
from headrace.net.session import InTurn
from headrace.observe.metrics import ApiStats
from headrace.security.identity import ANONYMOUS
from headrace.testing.disk import SimDisk
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey
from tests.support.processes.broker import Room, play, room

VERSION = 4
BODY = kio_codec.encode_body(kio_codec.request_type(ApiKey.LIST_GROUPS, VERSION)(states_filter=()))
GOOD = kio_codec.response_type(ApiKey.LIST_GROUPS, VERSION)


def route(outcome: Any, *, key: ApiKey = ApiKey.LIST_GROUPS, later: bool = False) -> Route:
    """A route whose handler ends with `outcome`: an answer, or what it raises."""
    found = Route(next(api for api in APIS if api.key == key), VERSION, ApiStats())

    def handle(context: Any, request: Any) -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def handle_later(context: Any, request: Any) -> Any:
        await asyncio.sleep(0)
        return handle(context, request)

    found.handle, found.loaded = handle_later if later else handle, True
    return found


def good() -> Any:
    from datetime import timedelta

    from kio.schema.errors import ErrorCode as KioErrorCode

    return GOOD(throttle_time=timedelta(0), error_code=KioErrorCode.none, groups=())


def code_of(body: Any) -> ErrorCode:
    answer: Any = kio_codec.decode_response(ApiKey.LIST_GROUPS, VERSION, memoryview(body))
    return ErrorCode(int(answer.error_code))


def spawned(tasks: list[Any]) -> Any:
    return lambda work: tasks.append(asyncio.get_running_loop().create_task(work))


def call(asked: Route) -> Any:
    nobody: Any = None
    return cold_calls.call(asked, nobody, memoryview(BODY), spawn=nobody)


async def call_later(asked: Route) -> Pending:
    """Call a coroutine and let it end."""
    nobody: Any = None
    tasks: list[Any] = []
    answer = cold_calls.call(asked, nobody, memoryview(BODY), spawn=spawned(tasks))
    assert isinstance(answer, Pending)
    await asyncio.gather(*tasks, return_exceptions=True)
    return answer


BUG = RuntimeError("a bug")
REFUSED = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("outcome", "code", "logged"),
    [
        (REFUSED, ErrorCode.COORDINATOR_NOT_AVAILABLE, 0),
        (BUG, ErrorCode.UNKNOWN_SERVER_ERROR, 1),
    ],
)
def test_a_failure_is_answered_by_its_code_and_counted_once_and_a_bug_is_logged(
    outcome: Exception,
    code: ErrorCode,
    logged: int,
    later: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        asked = route(outcome, later=later)
        for times in (1, 2):
            body = (await call_later(asked)).parts() if later else call(asked)
            assert code_of(body) is code
            assert asked.stats.errors == {code: times}

    with caplog.at_level(logging.ERROR):
        play(story())
    assert len(caplog.records) == 2 * logged
    for record in caplog.records:
        assert "LIST_GROUPS request (v4) met a bug" in record.getMessage()
        assert record.exc_info is not None
        assert record.exc_info[1] is BUG


def test_a_good_answer_is_no_error() -> None:
    async def story() -> None:
        asked = route(good())
        assert code_of(call(asked)) is ErrorCode.NONE
        later = route(good(), later=True)
        assert code_of((await call_later(later)).parts()) is ErrorCode.NONE
        assert asked.stats.errors == later.stats.errors == {}

    play(story())


def test_an_answer_that_waits_is_handed_on_as_it_is() -> None:
    pending = Pending()
    assert call(route(pending)) is pending


class Listener:
    """Who is told what becomes of an answer."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def answered(self) -> None:
        self.told.append("answered")

    def failed(self, problem: Exception) -> None:
        self.told.append(problem)


@pytest.mark.parametrize("error", [Malformed("no request"), InvariantError("broken")])
def test_what_cannot_be_answered_ends_the_connection_uncounted(error: Exception) -> None:
    async def story() -> None:
        asked = route(error)
        with pytest.raises(type(error)):
            call(asked)
        later, listener = route(error, later=True), Listener()
        nobody: Any = None
        tasks: list[Any] = []
        answer = cold_calls.call(later, nobody, memoryview(BODY), spawn=spawned(tasks))
        assert isinstance(answer, Pending)
        answer.wait_in(listener)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert listener.told == ["answered", error]
        assert asked.stats.errors == later.stats.errors == {}

    play(story())


# --- the first request, whose code a thread loads -------------------------------------------------


class HandDisk:
    """Runs what it is given when the test says so."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def run(self, work: Any, done: Any) -> None:
        self.done.append(done)


def call_first(asked: Route, body: Any = BODY) -> tuple[Pending, Any]:
    """The answer to be, and what the thread calls when it has loaded the route."""
    disk: Any = HandDisk()
    nobody: Any = None
    answer = cold_calls.call_first(asked, nobody, memoryview(body), spawn=nobody, disk=disk)
    return answer, disk.done[0]


def test_a_first_request_is_answered_once_its_code_is_there_though_its_frame_has_gone() -> None:
    frame = bytearray(BODY)
    answer, loaded = call_first(route(good()), frame)
    frame[:] = b"\xff" * len(frame)
    assert not answer.done
    loaded(None)
    assert code_of(answer.parts()) is ErrorCode.NONE


def test_a_first_request_whose_code_cannot_be_loaded_ends_the_connection() -> None:
    answer, loaded = call_first(route(good()))
    listener, error = Listener(), ImportError("gone")
    answer.wait_in(listener)
    loaded(error)
    assert listener.told == ["answered", error]


def test_a_broken_invariant_of_a_first_request_is_for_the_loop() -> None:
    answer, loaded = call_first(route(InvariantError("broken")))
    with pytest.raises(InvariantError):
        loaded(None)
    assert not answer.done


def test_a_first_request_that_waits_on_is_answered_when_that_is() -> None:
    inner = Pending()
    answer, loaded = call_first(route(inner))
    listener = Listener()
    answer.wait_in(listener)
    loaded(None)
    assert listener.told == []
    inner.resolve(b"body")
    assert listener.told == ["answered"]
    assert answer.parts() == b"body"


def test_a_first_request_that_was_answered_meanwhile_is_answered_at_once() -> None:
    inner = Pending()
    inner.resolve(b"body")
    answer, loaded = call_first(route(inner))
    loaded(None)
    assert answer.done
    assert answer.parts() == b"body"


def test_a_first_request_whose_client_goes_is_abandoned_before_and_behind_its_code() -> None:
    for late in (False, True):
        inner, gone = Pending(), list[bool]()
        inner.on_abandon = partial(gone.append, True)
        answer, loaded = call_first(route(inner))
        if late:
            answer.abandon()
            assert gone == []
        loaded(None)
        if not late:
            answer.abandon()
        assert gone == [True]
        assert inner.done


def test_a_first_request_that_waits_and_fails_ends_the_connection() -> None:
    inner, listener, error = Pending(), Listener(), ValueError("no")
    answer, loaded = call_first(route(inner))
    answer.wait_in(listener)
    loaded(None)
    inner.fail(error)
    assert listener.told == ["answered", error]


# --- in the dispatcher ----------------------------------------------------------------------------


def made(here: Room, *, waits: bool) -> tuple[Dispatcher, KafkaSession]:
    dispatcher = Dispatcher(
        here.broker, here.coordinators, here.controller, APIS, here.broker.metrics
    )
    nobody: Any = SimpleNamespace(
        address="127.0.0.1", listener="PLAINTEXT", port=1, principal=ANONYMOUS, waits=waits
    )
    return dispatcher, KafkaSession(dispatcher, nobody)


def frame() -> memoryview:
    entity = kio_codec.request_type(ApiKey.LIST_GROUPS, VERSION)(states_filter=())
    return memoryview(bytearray(kio_codec.encode_request(entity, 7, "test")))[4:]


def test_a_request_that_waits_for_its_turn_is_counted_when_that_comes(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            dispatcher, session = made(here, waits=True)
            stats = dispatcher.routes[ApiKey.LIST_GROUPS << 16 | VERSION].stats
            before = stats.requests, stats.bytes_in
            for _ in range(3):
                with pytest.raises(InTurn):
                    session.frame(frame())
            assert (stats.requests, stats.bytes_in) == before
            _, session = made(here, waits=False)
            session.frame(frame())
            assert (stats.requests, stats.bytes_in) == (before[0] + 1, before[1] + len(frame()))

    play(story())


def test_a_stop_ends_the_requests_that_are_being_worked_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            dispatcher, _ = made(here, waits=False)
            ended: list[str] = []

            async def work() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append("cancelled")

            dispatcher.spawn(work())
            await asyncio.sleep(0)
            await asyncio.wait_for(dispatcher.stop(), 10)
            assert ended == ["cancelled"]

    play(story())
