"""`headrace amqp topic-permission`: permissions of users on routing keys of topic exchanges."""

from typing import Annotated

from cyclopts import App, Parameter

from headrace.amqp_commands.amqp.asking import DEFAULT_VHOST, Column, Vhost, add_list, ask
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.output import tell

app = App(
    name="topic-permission",
    help="Set, list and clear permissions of routing keys at topic exchanges.",
)

_COLUMNS: list[Column] = [
    ("USER", "user"), ("VHOST", "vhost"), ("EXCHANGE", "exchange"), ("WRITE", "write"),
    ("READ", "read"),
]  # fmt: skip
add_list(
    app,
    "List the routing keys that users may use at topic exchanges; without a row, all.\n\nFor"
    " example: headrace amqp topic-permission list",
    _COLUMNS,
    "no topic permissions",
    by_user=True,
)


@app.command(name="set")
def set_(
    user: str,
    exchange: str,
    write: Annotated[str, Parameter(help="Routing keys to publish with.")],
    read: Annotated[str, Parameter(help="Routing keys to bind with.")],
    *,
    vhost: Vhost = DEFAULT_VHOST,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Set which routing keys a user may use at a topic exchange, by expressions of RE2.

    {username} and {vhost} stand for these names. For example: headrace amqp topic-permission set
    alice amq.topic '^{username}\\.' '.*'
    """
    question = {"user": user, "vhost": vhost, "exchange": exchange, "write": write, "read": read}
    ask(cluster, "topic-permission.set", **question)
    tell(f"set permissions of {user} at exchange {exchange}", question, json=json)


@app.command
def clear(
    user: str,
    exchange: Annotated[str | None, Parameter(help="One exchange; all, if you name none.")] = None,
    *,
    vhost: Vhost = DEFAULT_VHOST,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Let a user use all routing keys again, at one exchange or at all of a vhost.

    For example: headrace amqp topic-permission clear alice amq.topic
    """
    ask(cluster, "topic-permission.clear", user=user, exchange=exchange, vhost=vhost)
    done = {"user": user, "vhost": vhost, "exchange": exchange}
    tell(f"cleared topic permissions of {user} in vhost {vhost}", done, json=json)
