"""Refusals of the class queue."""

from typing import Any

from pamqp.commands import Basic, Queue

from tests.outside.amqp.cases.case import Case, Step, ask, publish

DECLARED: dict[str, Any] = {
    "durable": {"durable": True},
    "transient": {},
    "auto-delete": {"auto_delete": True},
    "exclusive": {"exclusive": True},
}
INVALID_ARGUMENTS: dict[str, Any] = {
    "x-message-ttl": ["soon", -1, 1.5, 2**33, True],
    "x-expires": ["soon", 0, -1, 2**33],
    "x-max-length": ["many", -1],
    "x-max-length-bytes": ["many", -1],
    "x-max-priority": ["high", -1, 256],
    "x-overflow": ["drop-tail", 1],
    "x-dead-letter-exchange": [1],
    "x-dead-letter-routing-key": [1],
    "x-dead-letter-strategy": ["twice"],
    "x-single-active-consumer": ["yes"],
    "x-queue-type": ["heap", 1],
    "x-queue-mode": ["idle"],
    "x-queue-master-locator": ["nobody"],
    "x-consumer-timeout": ["soon", -1],
    "x-delivery-limit": ["many"],
}
EQUIVALENCE: dict[str, tuple[Any, Any]] = {
    "x-message-ttl": (1000, 2000),
    "x-expires": (60_000, 70_000),
    "x-max-length": (10, 20),
    "x-max-length-bytes": (10, 20),
    "x-max-priority": (5, 6),
    "x-overflow": ("drop-head", "reject-publish"),
    "x-dead-letter-exchange": ("a", "b"),
    "x-single-active-consumer": (True, False),
    "x-queue-type": ("classic", "quorum"),
    "x-queue-mode": ("default", "lazy"),
    "x-consumer-timeout": (60_000, 70_000),
    "x-own": ("a", "b"),
}


def declare(queue: str = "q", connection: int = 0, **fields: Any) -> Step:
    """A queue declared."""
    return ask(Queue.Declare(queue=queue, **fields), connection)


def _equivalence() -> list[Case]:
    found = [
        Case(f"queue.declare: {one} and then {other}", [declare(**fields), declare(**others)])
        for one, fields in DECLARED.items()
        for other, others in DECLARED.items()
        if one != other
    ]
    for key, (value, other) in EQUIVALENCE.items():
        durable: dict[str, Any] = {"durable": True}
        first = declare(arguments={key: value}, **durable)
        found += [
            Case(
                f"queue.declare: another {key}", [first, declare(arguments={key: other}, **durable)]
            ),
            Case(f"queue.declare: {key} left out", [first, declare(**durable)]),
            Case(f"queue.declare: {key} added", [declare(**durable), first]),
        ]
    first = declare(arguments={"x-max-length": 10})
    found.append(
        Case(
            "queue.declare: a text where a number was",
            [first, declare(arguments={"x-max-length": "10"})],
        )
    )
    return found


def _arguments() -> list[Case]:
    return [
        Case(
            f"queue.declare: {key} = {value!r}",
            [declare(durable=True, arguments={key: value})],
        )
        for key, values in INVALID_ARGUMENTS.items()
        for value in values
    ]


def _kinds() -> list[Case]:
    quorum, stream = {"x-queue-type": "quorum"}, {"x-queue-type": "stream"}
    return [
        Case("queue.declare: a transient quorum queue", [declare(arguments=quorum)]),
        Case(
            "queue.declare: an exclusive quorum queue",
            [declare(durable=True, exclusive=True, arguments=quorum)],
        ),
        Case(
            "queue.declare: an auto-delete quorum queue",
            [declare(durable=True, auto_delete=True, arguments=quorum)],
        ),
        Case(
            "queue.declare: a quorum queue with priorities",
            [declare(durable=True, arguments=quorum | {"x-max-priority": 5})],
        ),
        Case(
            "queue.declare: a quorum queue that rejects and dead-letters",
            [declare(durable=True, arguments=quorum | {"x-overflow": "reject-publish-dlx"})],
        ),
        Case(
            "queue.declare: a lazy quorum queue",
            [declare(durable=True, arguments=quorum | {"x-queue-mode": "lazy"})],
        ),
        Case("queue.declare: a transient stream", [declare(arguments=stream)]),
        Case(
            "queue.declare: an exclusive stream",
            [declare(durable=True, exclusive=True, arguments=stream)],
        ),
        Case(
            "queue.declare: an auto-delete stream",
            [declare(durable=True, auto_delete=True, arguments=stream)],
        ),
        Case(
            "queue.declare: a stream with a TTL",
            [declare(durable=True, arguments=stream | {"x-message-ttl": 1000})],
        ),
        Case(
            "queue.declare: a classic queue with a delivery limit",
            [declare(durable=True, arguments={"x-delivery-limit": 5})],
        ),
        Case(
            "queue.declare: a dead-letter key without an exchange",
            [declare(arguments={"x-dead-letter-routing-key": "key"})],
        ),
    ]


def _streams() -> list[Case]:
    quorum, stream = {"x-queue-type": "quorum"}, {"x-queue-type": "stream"}
    return [
        Case(
            "basic.get: from a stream",
            [declare(durable=True, arguments=stream), ask(Basic.Get(queue="q"))],
        ),
        Case(
            "basic.consume: a stream without prefetch",
            [declare(durable=True, arguments=stream), ask(Basic.Consume(queue="q"))],
        ),
        Case(
            "basic.consume: a stream without acknowledgements",
            [
                declare(durable=True, arguments=stream),
                ask(Basic.Qos(prefetch_count=10)),
                ask(Basic.Consume(queue="q", no_ack=True)),
            ],
        ),
        Case(
            "basic.consume: a stream from an offset that is none",
            [
                declare(durable=True, arguments=stream),
                ask(Basic.Qos(prefetch_count=10)),
                ask(Basic.Consume(queue="q", arguments={"x-stream-offset": "tomorrow"})),
            ],
        ),
        Case(
            "queue.purge: a stream",
            [declare(durable=True, arguments=stream), ask(Queue.Purge(queue="q"))],
        ),
        Case(
            "basic.qos: global, then a quorum queue consumed",
            [
                declare(durable=True, arguments=quorum),
                ask(Basic.Qos(prefetch_count=10, global_=True)),
                ask(Basic.Consume(queue="q")),
            ],
        ),
    ]


def _refusals_of_streams() -> list[Case]:
    stream = {"x-queue-type": "stream"}
    return [
        Case(
            "basic.consume: a stream with a prefetch of its own and one of the channel",
            [
                declare(durable=True, arguments=stream),
                ask(Basic.Qos(prefetch_count=10)),
                ask(Basic.Qos(prefetch_count=10, global_=True)),
                ask(Basic.Consume(queue="q")),
            ],
        ),
        Case(
            "basic.consume: a stream with a priority",
            [
                declare(durable=True, arguments=stream),
                ask(Basic.Qos(prefetch_count=10)),
                ask(Basic.Consume(queue="q", arguments={"x-priority": 1})),
            ],
        ),
        Case(
            "queue.declare: a stream with a single active consumer",
            [declare(durable=True, arguments=stream | {"x-single-active-consumer": True})],
        ),
        Case(
            "queue.delete: a stream that must be empty and unused",
            [
                declare(durable=True, arguments=stream),
                ask(Queue.Delete(queue="q", if_unused=True, if_empty=True)),
            ],
        ),
    ]


def _locks() -> list[Case]:
    mine = declare(exclusive=True)
    there = 1
    return [
        Case("queue.declare: another's exclusive queue", [mine, declare(connection=there)]),
        Case(
            "queue.declare: another's exclusive queue as exclusive",
            [mine, declare(connection=there, exclusive=True)],
        ),
        Case(
            "queue.declare: another's exclusive queue passively",
            [mine, declare(connection=there, passive=True)],
        ),
        Case(
            "queue.delete: another's exclusive queue", [mine, ask(Queue.Delete(queue="q"), there)]
        ),
        Case("queue.purge: another's exclusive queue", [mine, ask(Queue.Purge(queue="q"), there)]),
        Case(
            "queue.bind: another's exclusive queue",
            [mine, ask(Queue.Bind(queue="q", exchange="amq.topic", routing_key="a"), there)],
        ),
        Case(
            "queue.unbind: another's exclusive queue",
            [mine, ask(Queue.Unbind(queue="q", exchange="amq.topic", routing_key="a"), there)],
        ),
        Case(
            "basic.consume: another's exclusive queue", [mine, ask(Basic.Consume(queue="q"), there)]
        ),
        Case("basic.get: another's exclusive queue", [mine, ask(Basic.Get(queue="q"), there)]),
    ]


def _names() -> list[Case]:
    return [
        Case("queue.declare: passive, none there", [declare("none", passive=True)]),
        Case("queue.declare: a name of the broker's own", [declare("amq.own")]),
        Case(
            "queue.declare: a name of the broker's own, passively",
            [declare("amq.own", passive=True)],
        ),
        Case("queue.bind: no such queue", [_bind("none", "amq.topic")]),
        Case("queue.bind: no such exchange", [declare(), _bind("q", "none")]),
        Case("queue.bind: neither", [_bind("none", "nothing")]),
        Case("queue.bind: to the default exchange", [declare(), _bind("q", "")]),
        Case("queue.bind: no queue declared on this channel", [_bind("", "amq.topic")]),
        Case(
            "queue.unbind: no such queue",
            [ask(Queue.Unbind(queue="none", exchange="amq.topic"))],
        ),
        Case(
            "queue.unbind: no such exchange",
            [declare(), ask(Queue.Unbind(queue="q", exchange="none"))],
        ),
        Case(
            "queue.unbind: from the default exchange",
            [declare(), ask(Queue.Unbind(queue="q", exchange=""))],
        ),
        Case("queue.purge: no such queue", [ask(Queue.Purge(queue="none"))]),
        Case("queue.purge: no queue declared on this channel", [ask(Queue.Purge(queue=""))]),
        Case("queue.delete: no queue declared on this channel", [ask(Queue.Delete(queue=""))]),
        Case(
            "queue.delete: if empty, and it is not",
            [
                declare(),
                publish(Basic.Publish(routing_key="q"), b"one"),
                # It is in the queue before anything else is asked.
                Step("basic.get", ask(Basic.Get(queue="q")).data, "content-body"),
                ask(Basic.Reject(1, requeue=True)),
                ask(Queue.Delete(queue="q", if_empty=True)),
            ],
        ),
        Case(
            "queue.delete: if unused, and it is not",
            [
                declare(),
                ask(Basic.Consume(queue="q")),
                ask(Queue.Delete(queue="q", if_unused=True)),
            ],
        ),
        Case(
            "queue.bind: a match that is none",
            [
                declare(),
                ask(Queue.Bind(queue="q", exchange="amq.headers", arguments={"x-match": "some"})),
            ],
        ),
    ]


def _bind(queue: str, exchange: str) -> Step:
    return ask(Queue.Bind(queue=queue, exchange=exchange, routing_key="a"))


CASES = [
    *_equivalence(),
    *_arguments(),
    *_kinds(),
    *_streams(),
    *_refusals_of_streams(),
    *_locks(),
    *_names(),
]
