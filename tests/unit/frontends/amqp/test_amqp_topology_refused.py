"""What administrators may not change of exchanges, queues and bindings, and when they are told."""

import asyncio
from typing import Any

import pytest

from headrace.frontends.amqp import admin_methods
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import SessionLost
from headrace.queues.model.durability import KeptDone, NothingKept
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import QueueBind, QueueDeclare
from tests.support.amqp.administration import Vhost


@pytest.fixture
def vhost() -> Vhost:
    return Vhost()


UNLIKE = "PRECONDITION_FAILED - inequivalent arg "
REFUSALS: list[tuple[str, dict[str, Any], ErrorCode, str]] = [
    ("queue.delete", {"name": "none"}, ErrorCode.RESOURCE_NOT_FOUND,
     "NOT_FOUND - no queue 'none' in vhost '/'; see: headrace amqp queue list"),
    ("queue.purge", {"name": "none"}, ErrorCode.RESOURCE_NOT_FOUND,
     "NOT_FOUND - no queue 'none' in vhost '/'; see: headrace amqp queue list"),
    ("exchange.delete", {"name": "none"}, ErrorCode.RESOURCE_NOT_FOUND,
     "NOT_FOUND - no exchange 'none' in vhost '/'; see: headrace amqp exchange list"),
    ("binding.create", {"source": "none", "destination": "q"}, ErrorCode.RESOURCE_NOT_FOUND,
     "NOT_FOUND - no exchange 'none' in vhost '/'; see: headrace amqp exchange list"),
    ("binding.create", {"source": "amq.topic", "destination": "none"},
     ErrorCode.RESOURCE_NOT_FOUND,
     "NOT_FOUND - no queue 'none' in vhost '/'; see: headrace amqp queue list"),
    ("binding.delete", {"source": "amq.topic", "destination": "q", "routing_key": "k"},
     ErrorCode.RESOURCE_NOT_FOUND,
     "NOT_FOUND - no binding from exchange 'amq.topic' in vhost '/' to queue 'q' with the routing"
     " key 'k' and these arguments; see: headrace amqp binding list"),
    ("binding.delete", {"source": "none", "destination": "q"}, ErrorCode.RESOURCE_NOT_FOUND,
     "NOT_FOUND - no binding from exchange 'none'"),
    ("queue.declare", {"name": "q", "durable": True}, ErrorCode.INVALID_REQUEST,
     f"{UNLIKE}'durable' for queue 'q' in vhost '/': received 'true' but current is 'false';"
     " declare it as it is, or delete it first"),
    ("exchange.declare", {"name": "amq.topic"}, ErrorCode.INVALID_REQUEST,
     f"{UNLIKE}'type' for exchange 'amq.topic' in vhost '/': received 'direct' but current is"
     " 'topic'; declare it as it is, or delete it first"),
    ("queue.declare", {"name": "amq.q"}, ErrorCode.INVALID_REQUEST,
     "ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'"),
    ("exchange.declare", {"name": "amq.e"}, ErrorCode.INVALID_REQUEST,
     "ACCESS_REFUSED - exchange name 'amq.e' contains reserved prefix 'amq.*'"),
    ("exchange.declare", {"name": "e", "type": "none"}, ErrorCode.INVALID_REQUEST,
     "PRECONDITION_FAILED - unknown exchange type 'none'"),
    ("exchange.declare", {"name": ""}, ErrorCode.INVALID_REQUEST,
     "ACCESS_REFUSED - operation not permitted on the default exchange"),
    ("exchange.delete", {"name": ""}, ErrorCode.INVALID_REQUEST,
     "ACCESS_REFUSED - operation not permitted on the default exchange"),
    ("exchange.delete", {"name": "amq.topic"}, ErrorCode.INVALID_REQUEST,
     "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '/' not allowed"),
    ("binding.create", {"source": "", "destination": "q"}, ErrorCode.INVALID_REQUEST,
     "ACCESS_REFUSED - operation not permitted on the default exchange"),
    ("queue.declare", {"name": "r", "arguments": {"x-max-length": "five"}},
     ErrorCode.INVALID_REQUEST, "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue 'r'"),
    ("queue.declare", {"name": "r", "arguments": {"x-dead-letter-exchange": "no UTF-8: \udc80"}},
     ErrorCode.INVALID_REQUEST, "PRECONDITION_FAILED - invalid type 'longstr' for arg"),
    ("queue.declare", {"name": "r", "durable": False, "arguments": {"x-queue-type": "quorum"}},
     ErrorCode.INVALID_REQUEST,
     "PRECONDITION_FAILED - invalid property 'non-durable' for queue 'r' in vhost '/'"),
    ("queue.delete", {"name": "counted", "if_empty": True}, ErrorCode.INVALID_REQUEST,
     "NOT_IMPLEMENTED - cannot delete queue 'counted' in vhost '/'. queue.delete operations with"
     " if-empty flag set are not supported by quorum queues; leave the flag out to delete it"),
    ("queue.declare", {"name": "amq.rabbitmq.reply-to"}, ErrorCode.INVALID_REQUEST,
     "ACCESS_REFUSED - 'amq.rabbitmq.reply-to' is not a queue: the name is reserved for direct"
     " replies"),
    ("queue.declare", {"name": "r", "vhost": "none"}, ErrorCode.RESOURCE_NOT_FOUND,
     "there is no vhost 'none'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "question", "code", "said"),
    REFUSALS,
    ids=[f"{operation} {question}" for operation, question, _, _ in REFUSALS],
)
def test_what_is_refused_is_refused_in_rabbitmqs_words_and_with_a_remedy(
    vhost: Vhost, operation: str, question: dict[str, Any], code: ErrorCode, said: str
) -> None:
    vhost.client.declare()
    vhost.ask("queue.declare", name="counted", arguments={"x-queue-type": "quorum"})
    before = set(vhost.model.exchanges), set(vhost.model.queues)
    found, text = vhost.refused(operation, **question)
    assert (found, text[: len(said)]) == (code, said)
    assert (set(vhost.model.exchanges), set(vhost.model.queues)) == before


def test_a_connections_own_queue_is_left_to_it(vhost: Vhost) -> None:
    vhost.client.declare(exclusive=True)
    bound = QueueBind(queue="q", exchange="amq.topic")
    vhost.client.ask(bound)
    vhost.client.publish(b"a")
    ends = {"source": "amq.topic", "destination": "q"}
    for operation, question in (
        ("queue.declare", {"name": "q", "durable": False}),
        ("queue.delete", {"name": "q"}),
        ("queue.purge", {"name": "q"}),
        ("binding.create", {**ends, "routing_key": "k"}),
        ("binding.delete", ends),
    ):
        code, text = vhost.refused(operation, **question)
        assert code is ErrorCode.INVALID_REQUEST
        assert text.startswith("RESOURCE_LOCKED - cannot obtain exclusive access to locked queue")
        assert text.endswith("original declaration; the connection that owns it takes it along when"
                             " it ends: headrace amqp connection close")  # fmt: skip
    assert len(vhost.bindings("amq.topic")) == 1
    assert vhost.room.queues["q"].ready == 1


def test_a_vhosts_limit_of_queues_holds_for_administrators_too(vhost: Vhost) -> None:
    vhost.model.queues_max = 1
    vhost.ask("queue.declare", name="q")
    assert vhost.ask("queue.declare", name="q")["created"] is False
    _, text = vhost.refused("queue.declare", name="r")
    assert text == (
        "PRECONDITION_FAILED - cannot declare queue 'r': queue limit in vhost '/' (1) is reached;"
        " headrace amqp vhost alter --max-queues allows more"
    )


ENDS = {"source": "amq.topic", "destination": "amq.fanout", "to": "exchange"}
NO_QUESTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("queue.declare", {}, "name"),
    ("queue.declare", {"name": 7}, "7 is no text"),
    ("queue.declare", {"name": "a\nb"}, "line end"),
    ("queue.purge", {"name": "a\rb"}, "line end"),
    ("queue.declare", {"name": "\u00e9" * 127 + "ab"}, "256 bytes"),
    ("queue.declare", {"name": "\ud800"}, "surrogates"),
    ("queue.declare", {"name": "q", "durable": "yes"}, "durable is true or false, not 'yes'"),
    ("queue.declare", {"name": "q", "arguments": []}, "an object of JSON"),
    ("queue.declare", {"name": "q", "arguments": {"a" * 256: 1}}, "256 bytes"),
    ("queue.declare", {"name": "q", "arguments": {"a": 1 << 63}}, "quotes make it a string"),
    ("queue.declare", {"name": "q", "arguments": {"a": -(1 << 63) - 1}}, "quotes make it"),
    ("exchange.declare", {"name": "e", "type": None}, "type None is no text"),
    ("binding.create", {**ENDS, "to": "topic"}, "not to 'topic'"),
    ("binding.create", {**ENDS, "routing_key": "k" * 256}, "256 bytes"),
    ("binding.delete", {**ENDS, "routing_key": 1}, "routing_key 1 is no text"),
    ("queue.delete", {"name": "q", "if_empty": 1}, "if_empty is true or false"),
    ("queue.delete", {"name": "q", "vhost": 5}, "5 is no text"),
]


@pytest.mark.parametrize(("operation", "question", "said"), NO_QUESTIONS)
def test_what_no_client_could_ask_is_refused(
    vhost: Vhost, operation: str, question: dict[str, Any], said: str
) -> None:
    code, text = vhost.refused(operation, **question)
    assert (code, said in text) == (ErrorCode.INVALID_REQUEST, True), text
    assert not vhost.room.queues


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


def test_arguments_are_nested_as_deep_as_a_frame_may_have_them(vhost: Vhost) -> None:
    vhost.ask("queue.declare", name="q", arguments={"a": nested(64)})
    code, text = vhost.refused("queue.declare", name="r", arguments={"a": nested(65)})
    assert (code, "nested deeper than 64" in text) == (ErrorCode.INVALID_REQUEST, True)
    code, text = vhost.refused("queue.declare", name="r", arguments={"a": nested(900)})
    assert (code, "nested deeper than 64" in text) == (ErrorCode.INVALID_REQUEST, True)
    assert list(vhost.room.queues) == ["q"]


def test_a_question_is_as_large_as_a_frame_and_no_larger(vhost: Vhost) -> None:
    rest = len(encode_method(1, QueueDeclare(queue="q", arguments={"a": ""})))
    room = admin_methods.METHOD_BYTES_MAX - rest
    vhost.ask("queue.declare", name="q", arguments={"a": "x" * room})
    code, text = vhost.refused("queue.declare", name="r", arguments={"a": "x" * (room + 1)})
    assert (code, "at most 131072" in text) == (ErrorCode.INVALID_REQUEST, True)


# When it is answered


class Held(NothingKept):
    """Keeps what is declared when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[KeptDone] = []

    def when_kept(self, done: KeptDone) -> None:
        self.waiting.append(done)


DECLARING: list[tuple[str, dict[str, Any]]] = [
    ("queue.declare", {"name": "new"}),
    ("queue.delete", {"name": "q"}),
    ("exchange.declare", {"name": "new"}),
    ("exchange.delete", {"name": "e"}),
    ("binding.create", {"source": "e", "destination": "q", "routing_key": "new"}),
    ("binding.delete", {"source": "e", "destination": "q"}),
]


@pytest.mark.parametrize(("operation", "question"), DECLARING)
@pytest.mark.parametrize("problem", [None, SessionLost("the store is away")])
def test_a_change_is_answered_once_it_is_kept_for_good(
    vhost: Vhost, operation: str, question: dict[str, Any], problem: SessionLost | None
) -> None:
    vhost.client.declare()
    vhost.ask("exchange.declare", name="e")
    vhost.ask("binding.create", source="e", destination="q")
    held = vhost.model.kept = Held()

    async def play() -> None:
        asked = asyncio.ensure_future(vhost.called(operation, **question))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not asked.done()
        (done,) = held.waiting
        done(problem)
        if problem is None:
            await asked
            return
        with pytest.raises(ApiError) as error:
            await asked
        assert error.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        told = "INTERNAL_ERROR - the changed declarations could not be stored: the store is away"
        assert error.value.message == told

    asyncio.run(asyncio.wait_for(play(), 10))
