"""The programs one learns RabbitMQ with, as they are written there: each side on its connection."""

from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import (
    PERSISTENT,
    Consumer,
    channel,
    declared,
    publish,
    scenario,
    unused,
)

LOG_KEYS = (
    "auth.info", "auth.warning", "auth.error", "cron.info", "cron.warning", "kern.info",
    "kern.warning", "kern.critical",
)  # fmt: skip


@scenario
def workers_share_a_durable_queue_fairly(address: Address) -> None:
    with channel(address) as boss, channel(address) as quick, channel(address) as slow:
        queue = unused("tasks")
        for opened in (boss, quick, slow):
            opened.queue_declare(queue, durable=True)
        workers = []
        for opened in (quick, slow):
            opened.basic_qos(prefetch_count=1)
            workers.append(Consumer(opened, queue))
        publish(boss, queue, *map(str, range(6)), delivery_mode=PERSISTENT)
        for worker in workers:
            worker.wait(1)
        # One that acknowledges goes on, the other keeps its one.
        for done in range(1, 6):
            quick.basic_ack(workers[0].got[done - 1].method.delivery_tag)
            if done < 5:
                workers[0].wait(done + 1)
        assert len(workers[1].settle()) == 1
        slow.basic_ack(1)
        assert sorted(workers[0].bodies + workers[1].bodies) == [b"%d" % n for n in range(6)]
        boss.queue_delete(queue)


@scenario
def a_workers_death_gives_its_task_to_another(address: Address) -> None:
    with channel(address) as boss, channel(address) as living:
        queue = unused("tasks")
        boss.queue_declare(queue, durable=True)
        with channel(address) as dying:
            publish(boss, queue, "task", delivery_mode=PERSISTENT)
            Consumer(dying, queue).wait(1)
        (message,) = Consumer(living, queue).wait(1)
        assert message.method.redelivered
        assert message.body == b"task"
        boss.queue_delete(queue)


@scenario
def subscribers_of_a_fanout_get_what_comes_while_they_listen(address: Address) -> None:
    logs = unused("logs")
    with channel(address) as emitter:
        emitter.exchange_declare(logs, "fanout")
        publish(emitter, "", "nobody listens", exchange=logs)
        with channel(address) as one, channel(address) as two:
            listeners = []
            for opened in (one, two):
                queue = declared(opened, "")
                opened.queue_bind(queue, logs)
                listeners.append(Consumer(opened, queue, auto_ack=True))
            publish(emitter, "", "everybody hears", exchange=logs)
            for listener in listeners:
                listener.wait(1)
                assert listener.bodies == [b"everybody hears"]
        emitter.exchange_delete(logs)


@scenario
def logs_are_routed_by_their_severity(address: Address) -> None:
    logs = unused("logs")
    with channel(address) as emitter, channel(address) as disk, channel(address) as screen:
        emitter.exchange_declare(logs, "direct")
        bound = {disk: ("error",), screen: ("info", "warning", "error")}
        listeners = []
        for opened, severities in bound.items():
            queue = declared(opened, "")
            for severity in severities:
                opened.queue_bind(queue, logs, severity)
            listeners.append(Consumer(opened, queue, auto_ack=True))
        for severity in ("info", "error", "debug", "warning", "error"):
            publish(emitter, severity, severity, exchange=logs)
        listeners[0].wait(2)
        listeners[1].wait(4)
        assert listeners[0].bodies == [b"error", b"error"]
        assert listeners[1].bodies == [b"info", b"error", b"warning", b"error"]
        emitter.exchange_delete(logs)


@scenario
def logs_are_routed_by_topic(address: Address) -> None:
    logs = unused("logs")
    wanted = {
        ("#",): LOG_KEYS,
        ("kern.*",): LOG_KEYS[5:],
        ("*.critical",): LOG_KEYS[7:],
        ("kern.*", "*.critical"): LOG_KEYS[5:],
        ("auth.#", "*.warning"): (*LOG_KEYS[:3], LOG_KEYS[4], LOG_KEYS[6]),
    }
    with channel(address) as emitter, channel(address) as opened:
        emitter.exchange_declare(logs, "topic")
        listeners = []
        for patterns in wanted:
            queue = declared(opened, "")
            for pattern in patterns:
                opened.queue_bind(queue, logs, pattern)
            listeners.append(Consumer(opened, queue, auto_ack=True))
        for key in LOG_KEYS:
            publish(emitter, key, key, exchange=logs)
        for listener, keys in zip(listeners, wanted.values(), strict=True):
            listener.wait(len(keys))
        for listener, (patterns, keys) in zip(listeners, wanted.items(), strict=True):
            assert listener.bodies == [key.encode() for key in keys], patterns
        emitter.exchange_delete(logs)


@scenario
def a_procedure_is_called_over_a_queue(address: Address) -> None:
    with channel(address) as server, channel(address) as client:
        calls = unused("rpc")
        server.queue_declare(calls, auto_delete=True)
        server.basic_qos(prefetch_count=1)
        serving = Consumer(server, calls)
        replies = client.queue_declare("", exclusive=True).method.queue
        answers = Consumer(client, replies, auto_ack=True)
        for number in range(3):
            publish(client, calls, str(number), reply_to=replies, correlation_id=f"call-{number}")
        for number in range(3):
            message = serving.wait(number + 1)[number]
            given = message.properties
            publish(
                server,
                given.reply_to,
                str(int(message.body) ** 2),
                correlation_id=given.correlation_id,
            )
            server.basic_ack(message.method.delivery_tag)
        found = {message.properties.correlation_id: message.body for message in answers.wait(3)}
        assert found == {"call-0": b"0", "call-1": b"1", "call-2": b"4"}
