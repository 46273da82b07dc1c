"""Refusals of the class exchange."""

from typing import Any

from pamqp.commands import Basic, Exchange

from tests.outside.amqp.cases.case import Case, Step, ask, publish

TYPES = ("direct", "fanout", "topic", "headers")
PREDECLARED = ("direct", "fanout", "topic", "headers", "match")


def declare(exchange: str = "e", kind: str = "direct", **fields: Any) -> Step:
    """An exchange declared."""
    return ask(Exchange.Declare(exchange=exchange, exchange_type=kind, **fields))


def _equivalence() -> list[Case]:
    fields: list[dict[str, Any]] = [
        {"durable": True},
        {"auto_delete": True},
        {"internal": True},
        {"arguments": {"alternate-exchange": "other"}},
    ]
    found = [
        Case(f"exchange.declare: a {kind} where a direct one is", [declare(), declare(kind=kind)])
        for kind in TYPES[1:]
    ]
    for added in fields:
        (name,) = added
        found += [
            Case(f"exchange.declare: {name} added", [declare(), declare(**added)]),
            Case(f"exchange.declare: {name} left out", [declare(**added), declare()]),
        ]
    first = declare(arguments={"alternate-exchange": "a"})
    other = declare(arguments={"alternate-exchange": "b"})
    return [*found, Case("exchange.declare: another alternate-exchange", [first, other])]


def _names() -> list[Case]:
    found = [
        Case("exchange.declare: passive, none there", [declare("none", passive=True)]),
        Case("exchange.declare: the default exchange", [declare("")]),
        Case("exchange.declare: the default exchange, passively", [declare("", passive=True)]),
        Case("exchange.declare: a name of the broker's own", [declare("amq.own")]),
        Case("exchange.declare: amq.direct as it is not", [declare("amq.direct")]),
        Case("exchange.declare: a type that is none", [declare(kind="x-nothing")]),
        Case("exchange.declare: no type", [declare(kind="")]),
        Case(
            "exchange.declare: an alternate exchange that is no text",
            [declare(arguments={"alternate-exchange": 1})],
        ),
        Case("exchange.delete: the default exchange", [ask(Exchange.Delete(exchange=""))]),
        Case(
            "exchange.delete: if unused, and a queue is bound",
            [
                declare(),
                _bind("amq.fanout", "e"),
                ask(Exchange.Delete(exchange="e", if_unused=True)),
            ],
        ),
    ]
    found += [
        Case(f"exchange.delete: amq.{name}", [ask(Exchange.Delete(exchange=f"amq.{name}"))])
        for name in PREDECLARED
    ]
    return found


def _bind(destination: str, source: str) -> Step:
    return ask(Exchange.Bind(destination=destination, source=source, routing_key="a"))


def _unbind(destination: str, source: str) -> Step:
    return ask(Exchange.Unbind(destination=destination, source=source, routing_key="a"))


def _bindings() -> list[Case]:
    return [
        Case("exchange.bind: no such source", [_bind("amq.fanout", "none")]),
        Case("exchange.bind: no such destination", [_bind("none", "amq.fanout")]),
        Case("exchange.bind: neither", [_bind("none", "nothing")]),
        Case("exchange.bind: from the default exchange", [_bind("amq.fanout", "")]),
        Case("exchange.bind: to the default exchange", [_bind("", "amq.fanout")]),
        Case("exchange.unbind: no such source", [_unbind("amq.fanout", "none")]),
        Case("exchange.unbind: no such destination", [_unbind("none", "amq.fanout")]),
        Case("exchange.unbind: from the default exchange", [_unbind("amq.fanout", "")]),
    ]


def _publishing() -> list[Case]:
    return [
        Case(
            "basic.publish: to an internal exchange",
            [declare(internal=True), publish(Basic.Publish(exchange="e"), b"m")],
        ),
        Case("basic.publish: no such exchange", [publish(Basic.Publish(exchange="none"), b"m")]),
    ]


CASES = [*_equivalence(), *_names(), *_bindings(), *_publishing()]
