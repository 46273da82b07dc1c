"""Queues whose settings change, and queues that are declared again, on the brokers of a cluster."""

import asyncio
from types import SimpleNamespace
from typing import Any

from headrace.model.errors import ApiError, ErrorCode
from headrace.queue_stores.queue_settings import ExchangeTopic
from headrace.queues.model.declarations import DeclaredQueue
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.declarations.cluster_declarations import RETRY_SECONDS
from headrace.vhosts.led_queues import LedQueues
from headrace.wire.amqp.model_methods import QueueDeclare, QueueDelete
from tests.support.queues.policies import change_queue
from tests.support.queues.queues import settings
from tests.support.sim.cluster import until
from tests.unit.server.test_cluster_declarations import ask, declarations, played


def test_deletion_of_a_queue_is_awaited_although_its_settings_change() -> None:
    async def story(cluster: SimCluster) -> None:
        at = declarations(cluster, 0)
        host = at.tables.virtual_hosts.hosts["/"]
        await ask(at, QueueDeclare(queue="q", durable=True))
        queue, done = host.model.queues["q"], list[str]()
        change_queue(host, "q", length_max=3)
        at.when_deleted("/", queue, lambda: done.append("deleted"))
        assert done == []
        await ask(at, QueueDelete(queue="q"))
        assert done == ["deleted"]
        await ask(at, QueueDeclare(queue="q", durable=True))
        at.when_deleted("/", queue, lambda: done.append("another"))
        assert done == ["deleted", "another"]

    played(story)


def test_queue_that_has_ended_is_deleted_although_its_settings_change() -> None:
    async def story(cluster: SimCluster) -> None:
        at = declarations(cluster, 0)
        host = at.tables.virtual_hosts.hosts["/"]
        await ask(at, QueueDeclare(queue="q", durable=True))
        asked, at_once = list[object](), at.ask

        def fail(command: Any, done: Any) -> None:
            asked.append(command)
            done(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))

        at.ask = fail  # type: ignore[method-assign]
        assert host.ended is not None
        host.ended("q")
        change_queue(host, "q", length_max=3)
        await until(lambda: len(asked) == 2)
        at.ask = at_once  # type: ignore[method-assign]
        await until(lambda: "q" not in host.model.queues)
        await ask(at, QueueDeclare(queue="q", durable=True))
        at.ask = fail  # type: ignore[method-assign]
        host.ended("q")
        at.ask = at_once  # type: ignore[method-assign]
        await ask(at, QueueDelete(queue="q"))
        await ask(at, QueueDeclare(queue="q", durable=True))
        await asyncio.sleep(2 * RETRY_SECONDS)
        assert "q" in host.model.queues, "a queue that is declared again has not ended"

    played(story)


def test_stream_of_a_topic_goes_on_when_its_settings_change() -> None:
    hosted: list[DeclaredQueue] = []
    partition = SimpleNamespace()
    broker: Any = SimpleNamespace(partitions={("t", 0): partition})

    def declared() -> DeclaredQueue:
        reads = settings()._replace(topic=ExchangeTopic("t"))
        return DeclaredQueue("s", True, False, None, {}, reads)

    def host_queue(queue: DeclaredQueue) -> None:
        hosted.append(queue)
        host.queues["s"] = SimpleNamespace(declared=queue, refused=None)

    host: Any = SimpleNamespace(
        name="/", queues={}, host=host_queue, end_consumers=len, unhost=lambda queue: ()
    )
    led = LedQueues(broker, SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    queue = declared()
    led.declared(host, queue)
    queue.change(queue.settings._replace(consumer_timeout_ms=5000), 0)
    led.declared(host, queue)
    assert hosted == [queue]
    again = declared()
    led.declared(host, again)
    assert hosted == [queue, again]


def test_log_is_loaded_again_for_the_same_declaration_alone() -> None:
    queue, store = (
        DeclaredQueue("q", True, False, None, {}, settings()),
        SimpleNamespace(priority=0),
    )
    host: Any = SimpleNamespace(name="/", model=SimpleNamespace(queues={"q": queue}))
    led = LedQueues(SimpleNamespace(), SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    led._terms["__amqp.queue.q", 0] = SimpleNamespace(store=store)  # type: ignore[assignment]
    queue.change(settings(length_max=3), 0)
    assert led._is_present(host, queue, store)  # type: ignore[arg-type]
    host.model.queues["q"] = DeclaredQueue("q", True, False, None, {}, queue.settings)
    assert not led._is_present(host, queue, store)  # type: ignore[arg-type]
