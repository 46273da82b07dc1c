"""Refusals of the classes basic, confirm and tx, and what only a user without rights is refused."""

from typing import Any

from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

from tests.outside.amqp.cases.case import Case, Step, ask, publish

DECLARED = ask(Queue.Declare(queue="q"))
SENT = publish(Basic.Publish(routing_key="q"), b"m")
TAKEN = Step("basic.get", ask(Basic.Get(queue="q")).data, "content-body")
CONSUMED = ask(Basic.Consume(queue="q", consumer_tag="c"))
CONSUMER_ARGUMENTS: dict[str, list[Any]] = {
    "x-priority": ["high", 1.5, True],
    "x-cancel-on-ha-failover": ["yes"],
    "x-stream-offset": ["first"],
}


def _settling() -> list[Case]:
    found = []
    for name, settle in (
        ("ack", Basic.Ack(7)),
        ("ack, with multiple", Basic.Ack(7, multiple=True)),
        ("nack", Basic.Nack(7)),
        ("reject", Basic.Reject(7)),
    ):
        found.append(Case(f"basic.{name}: an unknown tag", [ask(settle)]))
    found += [
        Case("basic.ack: tag 0, nothing taken", [ask(Basic.Ack(0))]),
        Case("basic.ack: twice", [DECLARED, SENT, TAKEN, ask(Basic.Ack(1)), ask(Basic.Ack(1))]),
        Case(
            "basic.ack: after a multiple one",
            [DECLARED, SENT, TAKEN, ask(Basic.Ack(1, multiple=True)), ask(Basic.Ack(1))],
        ),
        Case(
            "basic.ack: what was taken without acknowledgements",
            [
                DECLARED,
                SENT,
                Step("basic.get", ask(Basic.Get(queue="q", no_ack=True)).data, "content-body"),
                ask(Basic.Ack(1)),
            ],
        ),
    ]
    return found


def _consuming() -> list[Case]:
    exclusive = ask(Basic.Consume(queue="q", consumer_tag="c2", exclusive=True))
    found = [
        Case("basic.consume: no such queue", [ask(Basic.Consume(queue="none"))]),
        Case("basic.get: no such queue", [ask(Basic.Get(queue="none"))]),
        Case("basic.consume: no queue declared on this channel", [ask(Basic.Consume())]),
        Case("basic.get: no queue declared on this channel", [ask(Basic.Get())]),
        Case("basic.consume: a tag in use", [DECLARED, CONSUMED, CONSUMED]),
        Case("basic.consume: beside an exclusive consumer", [DECLARED, exclusive, CONSUMED]),
        Case("basic.consume: exclusive beside another", [DECLARED, CONSUMED, exclusive]),
        Case(
            "basic.consume: exclusive twice",
            [DECLARED, exclusive, ask(Basic.Consume(queue="q", exclusive=True))],
        ),
        Case(
            "basic.consume: a single active queue exclusively",
            [
                ask(Queue.Declare(queue="q", arguments={"x-single-active-consumer": True})),
                exclusive,
            ],
        ),
        Case(
            "basic.get: beside an exclusive consumer",
            [DECLARED, exclusive, ask(Basic.Get(queue="q"))],
        ),
        Case(
            "basic.consume: replies with acknowledgements",
            [ask(Basic.Consume(queue="amq.rabbitmq.reply-to"))],
        ),
        Case(
            "basic.consume: replies twice",
            [
                ask(Basic.Consume(queue="amq.rabbitmq.reply-to", no_ack=True)),
                ask(Basic.Consume(queue="amq.rabbitmq.reply-to", no_ack=True)),
            ],
        ),
        Case(
            "basic.publish: asks for replies, and nobody waits for them",
            [
                publish(Basic.Publish(routing_key="q"), b"m", reply_to="amq.rabbitmq.reply-to"),
            ],
        ),
    ]
    for key, values in CONSUMER_ARGUMENTS.items():
        found += [
            Case(
                f"basic.consume: {key} = {value!r}",
                [DECLARED, ask(Basic.Consume(queue="q", arguments={key: value}))],
            )
            for value in values
        ]
    return found


def _publishing() -> list[Case]:
    to_queue = Basic.Publish(routing_key="q")
    return [
        Case(
            "basic.publish: immediate",
            [publish(Basic.Publish(routing_key="q", immediate=True), b"m")],
        ),
        Case("basic.publish: another user's id", [publish(to_queue, b"m", user_id="mallory")]),
        Case(
            "basic.publish: an expiration that is no number",
            [DECLARED, publish(to_queue, b"m", expiration="soon")],
        ),
        Case(
            "basic.publish: a negative expiration",
            [DECLARED, publish(to_queue, b"m", expiration="-1")],
        ),
        Case(
            "basic.publish: an expiration with a unit",
            [DECLARED, publish(to_queue, b"m", expiration="10s")],
        ),
        Case(
            "basic.publish: CC is no list", [DECLARED, publish(to_queue, b"m", headers={"CC": "q"})]
        ),
        Case(
            "basic.publish: BCC is no list", [DECLARED, publish(to_queue, b"m", headers={"BCC": 1})]
        ),
        Case("basic.qos: prefetch_size", [ask(Basic.Qos(prefetch_size=1))]),
        Case("basic.recover: without requeue", [ask(Basic.Recover(requeue=False))]),
        Case("basic.recover-async: without requeue", [ask(Basic.RecoverAsync(requeue=False))]),
        Case("channel.flow: stop", [ask(Channel.Flow(active=False))]),
    ]


def _transactions() -> list[Case]:
    return [
        Case("tx.commit: no transaction", [ask(Tx.Commit())]),
        Case("tx.rollback: no transaction", [ask(Tx.Rollback())]),
        Case("tx.select: on a confirming channel", [ask(Confirm.Select()), ask(Tx.Select())]),
        Case(
            "confirm.select: on a transactional channel", [ask(Tx.Select()), ask(Confirm.Select())]
        ),
        Case("basic.ack: an unknown tag in a transaction", [ask(Tx.Select()), ask(Basic.Ack(1))]),
        Case(
            "tx.commit: a publish to no exchange",
            [ask(Tx.Select()), publish(Basic.Publish(exchange="none"), b"m"), ask(Tx.Commit())],
        ),
    ]


def _permissions() -> list[Case]:
    """`reader` may read all, and write and change what is named `own.…`."""
    dead = {"x-dead-letter-exchange": "e"}
    steps: dict[str, list[Step]] = {
        "queue.declare": [ask(Queue.Declare(queue="theirs"))],
        "queue.declare, passive": [ask(Queue.Declare(queue="theirs", passive=True))],
        "queue.declare with dead letters": [ask(Queue.Declare(queue="own.q", arguments=dead))],
        "queue.delete": [ask(Queue.Delete(queue="theirs"))],
        "queue.bind": [ask(Queue.Bind(queue="theirs", exchange="amq.topic"))],
        "queue.unbind": [ask(Queue.Unbind(queue="theirs", exchange="amq.topic"))],
        "exchange.declare": [ask(Exchange.Declare(exchange="theirs"))],
        "exchange.declare with an alternate": [
            ask(Exchange.Declare(exchange="own.e", arguments={"alternate-exchange": "theirs"}))
        ],
        "exchange.delete": [ask(Exchange.Delete(exchange="theirs"))],
        "exchange.bind": [ask(Exchange.Bind(destination="theirs", source="amq.topic"))],
        "exchange.unbind": [ask(Exchange.Unbind(destination="theirs", source="amq.topic"))],
        "basic.publish": [publish(Basic.Publish(exchange="amq.topic", routing_key="a"), b"m")],
        "basic.publish to the default exchange": [publish(Basic.Publish(routing_key="q"), b"m")],
    }
    return [
        Case(f"{name}: not permitted", given, "reader", "secret") for name, given in steps.items()
    ]


CASES = [
    *_settling(), *_consuming(), *_publishing(), *_transactions(), *_permissions(),
]  # fmt: skip
