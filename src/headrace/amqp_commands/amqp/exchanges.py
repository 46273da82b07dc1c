"""`headrace amqp exchange`: list, declare and delete exchanges."""

from typing import Annotated, Literal

from cyclopts import App, Parameter

from headrace.amqp_commands.amqp.arguments import Arguments, arguments_of
from headrace.amqp_commands.amqp.asking import (
    DEFAULT_VHOST,
    Column,
    Vhost,
    add_list,
    ask,
    tell_declared,
)
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm_on_terminal
from headrace.terminal.output import tell

app = App(name="exchange", help="List, declare and delete exchanges.")

_COLUMNS: list[Column] = [
    ("VHOST", "vhost"), ("EXCHANGE", "name"), ("TYPE", "type"), ("DURABLE", "durable"),
    ("AUTO-DELETE", "auto_delete"), ("INTERNAL", "internal"), ("ARGUMENTS", "arguments"),
]  # fmt: skip
add_list(
    app,
    "List the exchanges of all vhosts, or of one.\n\nFor example: headrace amqp exchange list",
    _COLUMNS,
    "there are no exchanges",
)


@app.command
def declare(
    name: str,
    *,
    type_: Annotated[
        Literal["direct", "fanout", "topic", "headers"],
        Parameter(name="--type", help="How it routes."),
    ],
    internal: Annotated[
        bool, Parameter(help="Only exchanges bound to it hand it messages.")
    ] = False,
    auto_delete: Annotated[bool, Parameter(help="It goes with the last binding from it.")] = False,
    transient: Annotated[bool, Parameter(help="It is gone after a restart.")] = False,
    argument: Arguments = (),
    vhost: Vhost = DEFAULT_VHOST,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Declare an exchange, a durable one without --transient; no error where the same is there.

    For example: headrace amqp exchange declare logs --type topic --vhost shop; headrace amqp
    exchange declare sales --type fanout --argument x-headrace-topic=sales
    """
    declared = ask(
        cluster,
        "exchange.declare",
        vhost=vhost,
        name=name,
        type=type_,
        durable=not transient,
        auto_delete=auto_delete,
        internal=internal,
        arguments=arguments_of(argument),
    )
    tell_declared("exchange", vhost, declared, json=json)


@app.command(alias="rm")
def delete(
    name: str,
    *,
    if_unused: Annotated[bool, Parameter(help="Only while nothing is bound to it.")] = False,
    vhost: Vhost = DEFAULT_VHOST,
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Delete an exchange with its bindings; queues and their messages stay.

    It asks on a terminal, unless --if-unused says that nothing may be bound to it.

    For example: headrace amqp exchange delete logs --if-unused --vhost shop
    """
    question = f"Delete exchange {name} in vhost {vhost} with all its bindings?"
    confirm_on_terminal(question, yes=yes or if_unused)
    ask(cluster, "exchange.delete", vhost=vhost, name=name, if_unused=if_unused)
    tell(f"deleted exchange {name} in vhost {vhost}", {"vhost": vhost, "exchange": name}, json=json)
