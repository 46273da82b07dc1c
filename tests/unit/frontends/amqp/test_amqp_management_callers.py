"""Changes by users of the management API: with their own permissions, as in AMQP."""

import asyncio
import logging
from typing import Any

import pytest

from headrace.frontends.amqp.admin_methods import do_method
from headrace.operations.permissions import Caller, Surface
from headrace.operations.queues import (
    CreateBinding,
    DeclareExchange,
    DeclareQueue,
    DeleteBinding,
    DeleteExchange,
    DeleteQueue,
    OperationRefused,
    PurgeQueue,
)
from headrace.queues.permissions.access import Grant, TopicGrant
from headrace.queues.permissions.definitions import UserDefinition
from headrace.security.identity import USER, Identity, Principal
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.amqp.model_methods import QueueDeclare, QueueDeclareOk
from headrace.wire.amqp.reply_codes import AmqpError, ReplyCode
from tests.support.amqp.access import admission_of
from tests.support.amqp.administration import Vhost
from tests.support.cluster.peer_kit import play, started
from tests.support.sim.amqp import frontend_of, serve_amqp

ANN = Identity("10.0.0.1", "MANAGEMENT", Principal(USER, "ann"))
CALLER = Caller(ANN, Surface.MANAGEMENT, "PUT /", lambda: ("administrator",))
NEEDED: dict[str, tuple[Any, set[tuple[str, str]]]] = {
    "declare queue": (DeclareQueue("/", "new"), {("configure", "new")}),
    "declare its dead letters": (
        DeclareQueue("/", "new", arguments={"x-dead-letter-exchange": "e"}),
        {("configure", "new"), ("read", "new"), ("write", "e")},
    ),
    "delete queue": (DeleteQueue("/", "q"), {("configure", "q")}),
    "purge queue": (PurgeQueue("/", "q"), {("read", "q")}),
    "declare exchange": (DeclareExchange("/", "new", "topic"), {("configure", "new")}),
    "delete exchange": (DeleteExchange("/", "e"), {("configure", "e")}),
    "bind": (CreateBinding("/", "e", "queue", "q", "k"), {("write", "q"), ("read", "e")}),
    "unbind": (DeleteBinding("/", "e", "queue", "q", ""), {("write", "q"), ("read", "e")}),
}
"""By operation: its arguments, and all permissions that it needs."""


@pytest.fixture
def vhost() -> Vhost:
    """A vhost with a queue that is bound, and an admission by permissions."""
    made = Vhost()
    made.ask("queue.declare", name="q")
    made.ask("exchange.declare", name="e", type="topic")
    made.ask("binding.create", source="e", destination="q")
    made.room.broker._admission = admission_of(made.room.broker._admission.definitions)
    return made


def grant(vhost: Vhost, needed: set[tuple[str, str]], keys: TopicGrant | None = None) -> None:
    """Give ann these permissions."""
    patterns = {
        word: "|".join(f"^{name}$" for each, name in needed if each == word)
        for word in ("configure", "write", "read")
    }
    topics = {} if keys is None else {("/", "e"): keys}
    definition = UserDefinition(grants={"/": Grant(**patterns)}, topic_grants=topics)
    vhost.room.broker._admission.definitions.put_user("ann", definition)


def refused(vhost: Vhost, asked: Any) -> OperationRefused:
    """Return the refusal of an operation."""
    with pytest.raises(OperationRefused) as raised:
        asyncio.run(vhost.operations.call(CALLER, asked))
    assert raised.value.reply_code == ReplyCode.ACCESS_REFUSED
    return raised.value


@pytest.mark.parametrize("operation", NEEDED)
def test_a_change_needs_each_permission_that_amqp_needs(operation: str, vhost: Vhost) -> None:
    asked, needed = NEEDED[operation]
    for missing in needed:
        grant(vhost, needed - {missing})
        word, name = missing
        assert refused(vhost, asked).reason.startswith(f"{word} access to ")
        assert f" '{name}' in vhost '/' refused for user 'ann'" in refused(vhost, asked).reason
    grant(vhost, needed)
    asyncio.run(vhost.operations.call(CALLER, asked))


def test_a_binding_needs_its_topic_permission(vhost: Vhost) -> None:
    asked, needed = NEEDED["bind"]
    grant(vhost, needed, TopicGrant(".*", "^other"))
    assert "read access to topic 'k' in exchange 'e'" in refused(vhost, asked).reason


def test_a_refusal_is_audited_with_its_user_and_resource(
    vhost: Vhost, caplog: pytest.LogCaptureFixture
) -> None:
    asked, _ = NEEDED["delete queue"]
    with caplog.at_level(logging.WARNING, "headrace.security.audit"):
        refused(vhost, asked)
    (line,) = [each.message for each in caplog.records if each.message.startswith("refused")]
    assert "User:ann" in line
    assert "10.0.0.1" in line


def test_reserved_names_and_the_default_exchange_are_refused_to_all(vhost: Vhost) -> None:
    grant(vhost, set())
    vhost.room.broker._admission.definitions.permissions.set("ann", "/", Grant(".*", ".*", ".*"))
    for asked in (
        DeclareQueue("/", "amq.x"), DeclareExchange("/", "amq.x", "topic"),
        DeclareExchange("/", "", "direct"), DeleteExchange("/", "amq.topic"),
        CreateBinding("/", "", "queue", "q", "k"),
    ):  # fmt: skip
        refused(vhost, asked)


@pytest.mark.parametrize("operation", NEEDED)
def test_administrators_by_kafkas_protocol_need_no_permissions(
    operation: str, vhost: Vhost
) -> None:
    caller = CALLER._replace(surface=Surface.KAFKA)
    asyncio.run(vhost.operations.call(caller, NEEDED[operation][0]))


def test_a_coordinator_checks_the_permissions_of_the_user() -> None:
    async def story(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, 0, 1, 2)
        brokers: list[Any] = [frontend_of(server).broker for server in cluster.brokers.values()]
        method = QueueDeclare(queue="q", durable=True)
        for queues in brokers:
            with pytest.raises(AmqpError, match="configure access to queue 'q' in vhost '/'"):
                await do_method(queues, queues.virtual_hosts.hosts["/"], method, ANN)
        for queues in brokers:
            granted = UserDefinition(grants={"/": Grant("^q$", "", "")})
            queues._admission.definitions.put_user("ann", granted)
        for queues in brokers:
            host = queues.virtual_hosts.hosts["/"]
            assert await do_method(queues, host, method, ANN) == QueueDeclareOk("q", 0, 0)

    play(story)
