"""Vhosts that administrators change and delete, and what their clients notice."""

from typing import Any, cast

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.model.durability import KeptDone
from headrace.queues.model.vhost_table import predeclared_exchanges
from headrace.queues.permissions.definitions import VhostDefinition
from headrace.wire.amqp.model_methods import QueueBind
from tests.support.amqp.administration import Vhost
from tests.support.amqp.channels import QueueClient, names


def opened(at: Vhost) -> QueueClient:
    """Return a client of the new vhost `v`, which has declared a queue and a binding."""
    at.ask("vhost.create", vhost=None, name="v")
    client = at.room.client(vhost="v")
    client.declare(durable=True)
    client.say(QueueBind(queue="q", exchange="amq.topic", routing_key="#"))
    return client


def test_vhost_that_cannot_be_deleted_is_empty_and_usable() -> None:
    at = Vhost()
    client = opened(at)
    at.settings.problem = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the store is away")
    with pytest.raises(ApiError, match="the store is away"):
        at.ask("vhost.delete", vhost=None, name="v")
    assert names(client.heard()) == ["ConnectionClose"]
    model = at.room.broker.virtual_hosts.hosts["v"].model
    assert (dict(model.queues), model.exchanges["amq.topic"].bindings) == ({}, {})
    assert list(model.exchanges) == [exchange.name for exchange in predeclared_exchanges()]
    later = at.room.client(vhost="v")
    later.declare()
    later.publish(b"a")
    assert [queue.ready for queue in at.room.broker.virtual_hosts.queues()] == [1]
    at.settings.problem = None
    at.ask("vhost.delete", vhost=None, name="v")
    assert "v" not in at.room.broker.virtual_hosts.hosts


def test_protected_vhost_is_not_deleted_by_any_tool() -> None:
    at = Vhost()
    client = opened(at)
    at.ask("vhost.alter", vhost=None, name="v", protected=True)
    assert at.refused("vhost.delete", vhost=None, name="v")[0] is ErrorCode.POLICY_VIOLATION
    client.publish(b"a")
    assert [queue.ready for queue in at.room.broker.virtual_hosts.queues()] == [1]


def test_vhost_refuses_clients_until_its_deletion_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Vhost()
    opened(at)
    broker, waiting = at.room.broker, list[KeptDone]()
    kept = broker.virtual_hosts.hosts["v"].model.kept
    monkeypatch.setattr(kept, "when_kept", waiting.append, raising=False)
    broker.empty("v", lambda error: None)
    refused = at.room.client(vhost="v")
    assert not refused.opened
    assert "vhost 'v' is down" in refused.all[0].method.reply_text
    assert len(waiting) == 1
    broker.use_again("v")
    assert at.room.client(vhost="v").opened


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"durable": True}, "quorum"),
        ({"durable": True, "arguments": {"x-queue-type": "classic"}}, "classic"),
        ({}, "classic"),
        ({"durable": True, "exclusive": True}, "classic"),
        ({"durable": True, "auto_delete": True}, "classic"),
    ],
)
def test_default_queue_type_is_for_queues_that_it_suits(
    flags: dict[str, Any], expected: str
) -> None:
    at = Vhost()
    definitions = at.settings.definitions
    definitions.put_vhost("/", VhostDefinition(default_queue_type="quorum"))
    at.client.declare(**flags)
    queue = at.model.queues["q"]
    assert queue.settings.queue_type.value == queue.arguments["x-queue-type"] == expected
    definitions.put_vhost("/", VhostDefinition(default_queue_type="unknown to this version"))
    assert cast("str", at.client.declare("r", durable=True).queue) == "r"
    assert at.model.queues["r"].settings.queue_type.value == "classic"
