"""The operations of protocols: typed arguments, permission, and one audit line for each change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.invariant import InvariantError
from headrace.operations.arguments import Arguments, decode
from headrace.operations.permissions import Caller, Surface
from headrace.operations.registry import Operations
from headrace.security.audit import Audit
from headrace.security.authorizer import AllowsAll
from headrace.security.identity import Identity
from tests.support.coordination.groups_kit import HandClock

CALLER = Caller(Identity("10.0.0.1", "metrics.listener"), Surface.HTTP)


class Stored(NamedTuple):
    """A result."""

    name: str
    created: bool


@dataclass(frozen=True)
class Store(Arguments[Stored]):
    """An operation that changes something."""

    OPERATION = "thing.store"
    SECRETS: ClassVar[frozenset[str]] = frozenset({"password"})
    name: str
    password: str | None = None
    size: int | None = None
    durable: bool = False
    tags: tuple[str, ...] | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Show(Arguments[list[Stored]]):
    """An operation that changes nothing."""

    OPERATION = "thing.list"
    MUTATES = False


async def store(caller: Caller, asked: Store) -> Stored:
    return Stored(asked.name, created=True)


async def show(caller: Caller, asked: Show) -> list[Stored]:
    return [Stored("a", created=False)]


def operations(do: Callable[[Caller, Any], Awaitable[Any]] = store) -> Operations:
    """Return operations on a broker that allows all."""
    broker: Any = SimpleNamespace(authorizer=AllowsAll(), audit=Audit(HandClock()))
    made = Operations(broker)
    made.add({Store: do, Show: show})
    return made


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The audit log."""
    caplog.set_level(logging.INFO, logger="headrace.security.audit")
    return caplog


def test_typed_arguments_bring_a_typed_result_and_one_audit_line(
    told: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        made = operations()
        stored = await made.call(CALLER, Store("a", password="planted", size=5))
        assert stored.created
        assert [each.name for each in await made.call(CALLER, Show())] == ["a"]

    asyncio.run(main())
    (line,) = [record.getMessage() for record in told.records]
    assert line == (
        "changed principal=User:ANONYMOUS host=10.0.0.1 listener=metrics.listener by=HTTP"
        ' operation=thing.store asked="name=a,password=***,size=5" result=NONE'
    )


def test_json_brings_json() -> None:
    made = operations()
    stored = asyncio.run(made.call_json(CALLER, "thing.store", {"name": "a", "other": 1}))
    assert stored == {"name": "a", "created": True}
    assert asyncio.run(made.call_json(CALLER, "thing.list", {})) == [
        {"name": "a", "created": False}
    ]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ({}, "thing.store: name"),
        ({"name": 7}, "thing.store: name 7 is no text"),
        ({"name": None}, "thing.store: name None is no text"),
        ({"name": "a", "size": True}, "thing.store: size is a number, not True"),
        ({"name": "a", "durable": 1}, "thing.store: durable is true or false, not 1"),
        ({"name": "a", "tags": "b"}, "thing.store: tags is a list of texts, not 'b'"),
        ({"name": "a", "tags": [1]}, "thing.store: tags 1 is no text"),
        ({"name": "a", "arguments": []}, "thing.store: arguments are an object of JSON, not []"),
    ],
)
def test_values_of_another_type_are_refused_and_audited(
    told: pytest.LogCaptureFixture, question: dict[str, Any], text: str
) -> None:
    with pytest.raises(ApiError) as error:
        asyncio.run(operations().call_json(CALLER, "thing.store", question))
    assert (error.value.code, error.value.message) == (ErrorCode.INVALID_REQUEST, text)
    (line,) = [record.getMessage() for record in told.records]
    assert line.startswith("not changed ")
    assert line.endswith("result=INVALID_REQUEST")


def test_a_field_that_no_operation_knows_is_hidden_in_the_audit_log(
    told: pytest.LogCaptureFixture,
) -> None:
    question = {"name": "a", "hash": "planted", "password": "planted"}
    asyncio.run(operations().call_json(CALLER, "thing.store", question))
    assert "hash=***" in told.text
    assert "planted" not in told.text


@pytest.mark.parametrize("problem", [RuntimeError("a bug"), asyncio.CancelledError()])
def test_an_operation_that_fails_midway_is_not_audited_as_done(
    told: pytest.LogCaptureFixture, problem: BaseException
) -> None:
    async def fail(caller: Caller, asked: Store) -> Stored:
        raise problem

    with pytest.raises(type(problem)):
        asyncio.run(operations(fail).call(CALLER, Store("a")))
    (line,) = [record.getMessage() for record in told.records]
    assert line.startswith("not changed ")
    assert line.endswith("result=UNKNOWN_SERVER_ERROR")


@pytest.mark.parametrize("problem", [None, ApiError(ErrorCode.INVALID_REQUEST)])
def test_a_change_whose_caller_is_cancelled_is_carried_out_and_audited(
    told: pytest.LogCaptureFixture, problem: ApiError | None
) -> None:
    async def main() -> None:
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def wait(caller: Caller, asked: Store) -> Stored:
            begun.set()
            await goes_on.wait()
            if problem is not None:
                raise problem
            return Stored(asked.name, created=True)

        call = asyncio.create_task(operations(wait).call(CALLER, Store("a")))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert told.records == []
        goes_on.set()
        for _ in range(3):
            await asyncio.sleep(0)

    asyncio.run(main())
    (line,) = [record.getMessage() for record in told.records]
    assert line.startswith("changed " if problem is None else "not changed ")


def test_two_operations_of_one_name_are_refused() -> None:
    with pytest.raises(InvariantError, match=r"thing\.store"):
        operations().add({Store: store})


def test_all_given_values_are_decoded() -> None:
    asked = {
        "name": "a", "password": "p", "size": -1, "durable": True, "tags": ["x"],
        "arguments": {"k": 1},
    }  # fmt: skip
    assert decode(Store, asked) == Store("a", "p", -1, True, ("x",), {"k": 1})
