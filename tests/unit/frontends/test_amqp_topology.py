"""What administrators change of exchanges, queues and bindings, beside clients of that vhost."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.coordination.queues.field_values import kind_of
from headrace.coordination.queues.model.durability import KeptDone, NothingKept
from headrace.frontends.amqp import administered_methods
from headrace.frontends.amqp.administration import Administration
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import SessionLost
from headrace.wire.amqp.field_table import UInt8
from headrace.wire.amqp.model_methods import (
    BasicCancel,
    BasicGet,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueUnbind,
)
from tests.support.amqp_channels import QueueClient, QueueRoom, bodies

DEFAULTS: dict[str, dict[str, Any]] = {
    "queue.declare": {"durable": True},
    "exchange.declare": {"type": "direct", "durable": True},
    "binding.create": {"to": "queue", "routing_key": ""},
    "binding.delete": {"to": "queue", "routing_key": ""},
}


class Vhost:
    """A vhost, who administrates it, and a client."""

    def __init__(self) -> None:
        self.room = QueueRoom()
        settings: Any = SimpleNamespace(definitions=self.room.broker._admission.definitions)
        self.administration = Administration(self.room.broker, settings, settings)
        self.client: QueueClient = self.room.client()

    @property
    def model(self) -> Any:
        return self.room.broker.virtual_hosts.hosts["/"].model

    def question(self, operation: str, **question: Any) -> Mapping[str, Any]:
        return {"vhost": "/", **DEFAULTS.get(operation, {}), **question}

    def ask(self, operation: str, **question: Any) -> Any:
        return asyncio.run(self.administration.ask(operation, self.question(operation, **question)))

    def refused(self, operation: str, **question: Any) -> tuple[ErrorCode, str]:
        with pytest.raises(ApiError) as error:
            self.ask(operation, **question)
        return error.value.code, error.value.message or ""

    def bindings(self, source: str) -> list[tuple[str, str, str, dict[str, Any]]]:
        """Those from an exchange, without its name."""
        return [
            (*binding.destination, binding.routing_key, dict(binding.arguments))
            for binding in self.model.exchanges[source].bindings.values()
        ]


@pytest.fixture
def vhost() -> Vhost:
    return Vhost()


# What comes to be is what clients would declare


def test_clients_find_a_queue_that_was_declared_equal_to_theirs(vhost: Vhost) -> None:
    arguments = {
        "x-max-length": 5,
        "x-overflow": "reject-publish",
        "x-single-active-consumer": True,
    }
    declared = vhost.ask("queue.declare", name="q", auto_delete=True, arguments=arguments)
    assert declared == {"queue": "q", "created": True, "messages": 0, "consumers": 0}
    theirs = {"durable": True, "auto_delete": True, "arguments": arguments}
    assert vhost.client.declare(**theirs) == QueueDeclareOk("q", 0, 0)
    vhost.client.consume()
    vhost.client.publish(b"a", b"b")
    again = vhost.ask("queue.declare", name="q", auto_delete=True, arguments=arguments)
    assert (again["created"], again["consumers"]) == (False, 1)


def test_an_administrators_queue_is_no_connections_own_and_durable_as_is_said(vhost: Vhost) -> None:
    vhost.ask("queue.declare", name="kept")
    vhost.ask("queue.declare", name="gone", durable=False)
    queues = vhost.model.queues
    assert [(queues[name].durable, queues[name].owner) for name in ("kept", "gone")] == [
        (True, None), (False, None),
    ]  # fmt: skip


def test_clients_find_an_exchange_that_was_declared_equal_to_theirs(vhost: Vhost) -> None:
    flags = {"durable": True, "auto_delete": True, "internal": True}
    arguments = {"alternate-exchange": "amq.fanout"}
    question = {"name": "e", "type": "topic", **flags, "arguments": arguments}
    assert vhost.ask("exchange.declare", **question) == {"exchange": "e", "created": True}
    theirs = ExchangeDeclare(exchange="e", type="topic", arguments=dict(arguments), **flags)
    assert vhost.client.ask(theirs) == ExchangeDeclareOk()
    assert vhost.ask("exchange.declare", **question) == {"exchange": "e", "created": False}


def test_a_queue_without_a_name_is_named_by_the_broker(vhost: Vhost) -> None:
    name = vhost.ask("queue.declare", name="")["queue"]
    assert name.startswith("amq.gen-")
    assert list(vhost.room.queues) == [name]


def test_queues_and_exchanges_are_bound_once(vhost: Vhost) -> None:
    vhost.client.declare()
    for to, destination in (("queue", "q"), ("exchange", "amq.fanout")):
        question = {"source": "amq.topic", "destination": destination, "to": to}
        key = {"routing_key": "a.#"}
        assert vhost.ask("binding.create", **question, **key) == {"created": True}
        assert vhost.ask("binding.create", **question, **key) == {"created": False}
    assert vhost.bindings("amq.topic") == [
        ("queue", "q", "a.#", {}), ("exchange", "amq.fanout", "a.#", {}),
    ]  # fmt: skip
    vhost.client.publish(b"a", exchange="amq.topic", key="a.b")
    assert bodies(vhost.client.say(BasicGet(queue="q", no_ack=True))) == [b"a"]


def test_integers_are_longs_and_all_else_is_as_json_has_it(vhost: Vhost) -> None:
    arguments = {
        "small": 5, "large": 1 << 62, "least": -(1 << 63), "most": (1 << 63) - 1, "bool": True,
        "text": "5", "half": 0.5, "void": None, "table": {"n": 1}, "array": [2, False],
    }  # fmt: skip
    question = {"source": "amq.headers", "destination": "amq.fanout", "to": "exchange"}
    vhost.ask("binding.create", **question, arguments=arguments)
    ((_, _, _, kept),) = vhost.bindings("amq.headers")
    assert {name: kind_of(value) for name, value in kept.items()} == {
        "small": "long", "large": "long", "least": "long", "most": "long", "bool": "bool",
        "text": "longstr", "half": "double", "void": "void", "table": "table", "array": "array",
    }  # fmt: skip
    assert kept == arguments
    assert kind_of(kept["table"]["n"]) == kind_of(kept["array"][0]) == "long"


# What is deleted


def test_a_queue_goes_with_its_bindings_and_its_consumers_are_told(vhost: Vhost) -> None:
    client = vhost.client
    client.declare()
    client.ask(QueueBind(queue="q", exchange="amq.topic", routing_key="a"))
    client.consume(tag="mine")
    client.publish(b"held")
    client.declare("full")
    client.publish(b"a", b"b", key="full")
    assert vhost.ask("queue.delete", name="q") == 0
    assert client.heard() == []
    vhost.room.clock.advance(0)
    assert [heard.method for heard in client.heard()] == [BasicCancel("mine", True)]
    assert vhost.bindings("amq.topic") == []
    assert vhost.ask("queue.delete", name="full") == 2
    assert not vhost.room.queues


def test_conditions_hold_a_deletion_up_and_without_them_it_is_done(vhost: Vhost) -> None:
    client = vhost.client
    client.declare()
    client.publish(b"a")
    code, text = vhost.refused("queue.delete", name="q", if_empty=True)
    assert (code, text) == (
        ErrorCode.INVALID_REQUEST, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty",
    )  # fmt: skip
    client.consume()
    text = vhost.refused("queue.delete", name="q", if_unused=True, if_empty=True)[1]
    assert text == "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"
    assert vhost.ask("queue.delete", name="q", if_empty=True) == 0
    vhost.ask("queue.declare", name="r")
    assert vhost.ask("queue.delete", name="r", if_unused=True) == 0
    vhost.ask("exchange.declare", name="e")
    vhost.ask("binding.create", source="e", destination="amq.fanout", to="exchange")
    text = vhost.refused("exchange.delete", name="e", if_unused=True)[1]
    assert text == "PRECONDITION_FAILED - exchange 'e' in vhost '/' in use"
    vhost.ask("exchange.delete", name="e")
    vhost.ask("exchange.declare", name="e")
    assert vhost.ask("exchange.delete", name="e", if_unused=True) is None
    assert "e" not in vhost.model.exchanges


def test_a_purge_takes_what_is_ready_and_leaves_what_consumers_hold(vhost: Vhost) -> None:
    client = vhost.client
    client.declare()
    client.publish(b"a", b"b", b"c")
    client.say(BasicGet(queue="q"))
    assert vhost.ask("queue.purge", name="q") == 2
    (row,) = vhost.ask("queue.list")
    assert (row["messages_ready"], row["messages_unacknowledged"]) == (0, 1)
    assert vhost.ask("queue.purge", name="q") == 0


def test_a_binding_is_deleted_by_what_lists_show_of_it_whatever_kind_its_numbers_are(
    vhost: Vhost,
) -> None:
    client = vhost.client
    client.declare()
    for arguments in ({"n": 1}, {"n": UInt8(1)}, {"n": True}, {"n": 1.0}, {"n": "1"}, {}):
        bind = QueueBind(queue="q", exchange="amq.headers", routing_key="k", arguments=arguments)
        assert client.ask(bind) == QueueBindOk()
    client.ask(QueueBind(queue="q", exchange="amq.headers", arguments={"n": 1}))
    client.ask(
        ExchangeBind(
            destination="amq.fanout", source="amq.headers", routing_key="k", arguments={"n": 1}
        )
    )
    which = {"source": "amq.headers", "destination": "q", "routing_key": "k"}
    assert vhost.ask("binding.delete", **which, arguments={"n": 1}) == 2
    assert vhost.bindings("amq.headers") == [
        ("queue", "q", "k", {"n": True}), ("queue", "q", "k", {"n": 1.0}),
        ("queue", "q", "k", {"n": "1"}), ("queue", "q", "k", {}),
        ("queue", "q", "", {"n": 1}), ("exchange", "amq.fanout", "k", {"n": 1}),
    ]  # fmt: skip
    assert vhost.ask("binding.delete", **which) == 1
    to = {"destination": "amq.fanout", "to": "exchange"}
    assert vhost.ask("binding.delete", **{**which, **to}, arguments={"n": 1}) == 1
    assert [arguments for *_, arguments in vhost.bindings("amq.headers")] == [
        {"n": True}, {"n": 1.0}, {"n": "1"}, {"n": 1},
    ]  # fmt: skip


def test_a_client_unbinds_what_an_administrator_bound(vhost: Vhost) -> None:
    vhost.client.declare()
    vhost.ask("binding.create", source="amq.topic", destination="q", routing_key="a")
    vhost.client.ask(QueueUnbind(queue="q", exchange="amq.topic", routing_key="a"))
    assert vhost.bindings("amq.topic") == []


# What is refused

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
    ("queue.declare", {"name": "r", "durable": False, "arguments": {"x-queue-type": "quorum"}},
     ErrorCode.INVALID_REQUEST,
     "PRECONDITION_FAILED - invalid property 'non-durable' for queue 'r' in vhost '/'"),
    ("queue.delete", {"name": "counted", "if_empty": True}, ErrorCode.INVALID_REQUEST,
     "NOT_IMPLEMENTED - cannot delete queue 'counted' in vhost '/'. queue.delete operations with"
     " if-empty flag set are not supported by quorum queues; leave the flag out to delete it"),
    ("queue.declare", {"name": "amq.rabbitmq.reply-to"}, ErrorCode.INVALID_REQUEST,
     "ACCESS_REFUSED - queue 'amq.rabbitmq.reply-to' is none: it stands for direct replies"),
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
    rest = len(administered_methods.encode_method(1, QueueDeclare(queue="q", arguments={"a": ""})))
    room = administered_methods.METHOD_BYTES_MAX - rest
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
        asked = asyncio.ensure_future(
            vhost.administration.ask(operation, vhost.question(operation, **question))
        )
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
        told = "INTERNAL_ERROR - what was declared could not be stored: the store is away"
        assert error.value.message == told

    asyncio.run(asyncio.wait_for(play(), 10))
