"""`headrace amqp`: the tree of commands; connections, channels and consumers of one broker."""

from typing import Annotated

from cyclopts import App, Parameter

from headrace.amqp_commands.amqp.asking import Column, add_list, ask
from headrace.amqp_commands.amqp.maintenance import brokers, drain, revive
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError
from headrace.terminal.output import counted, tell

app = App(
    name="amqp",
    help="See and change what there is for RabbitMQ's clients: vhosts, users, permissions,"
    " exchanges, queues, bindings; list connections.",
)
for module, text in (
    ("vhosts", "Create, list, alter and delete vhosts."),
    ("users", "Create, list, alter and delete users of AMQP; take over RabbitMQ's."),
    ("permissions", "Set, list and clear permissions: what users may configure, write and read."),
    ("topic_permissions", "Set, list and clear permissions of routing keys at topic exchanges."),
    ("exchanges", "List, declare and delete exchanges."),
    ("queues", "List, declare, delete and purge queues."),
    ("bindings", "List, create and delete bindings."),
):
    plural = module.replace("_", "-")
    name = plural.removesuffix("s")
    app.command(f"headrace.amqp_commands.amqp.{module}:app", name=name, alias=plural, help=text)

app.command(brokers)
app.command(drain)
app.command(revive)

_CONNECTIONS: list[Column] = [
    ("CONNECTION", "name"), ("USER", "user"), ("VHOST", "vhost"), ("LISTENER", "listener"),
    ("CHANNELS", "channels"), ("CLIENT", lambda row: row["client"].get("product")),
]  # fmt: skip
_CHANNELS: list[Column] = [
    ("CONNECTION", "connection"), ("CHANNEL", "number"), ("USER", "user"), ("VHOST", "vhost"),
    ("CONSUMERS", "consumers"), ("UNACKED", "messages_unacknowledged"),
    ("PREFETCH", "prefetch_count"), ("CONFIRM", "confirm"), ("TX", "transactional"),
]  # fmt: skip
_CONSUMERS: list[Column] = [
    ("CONNECTION", "connection"), ("CHANNEL", "channel"), ("VHOST", "vhost"), ("QUEUE", "queue"),
    ("TAG", "tag"), ("ACKS", "ack_required"), ("PREFETCH", "prefetch_count"),
    ("UNACKED", "messages_unacknowledged"),
]  # fmt: skip


def _family(name: str, text: str) -> App:
    """Add a group of commands to the tree and return it."""
    family = App(name=name, alias=f"{name}s", help=text)
    app.command(family)
    return family


connections = _family("connection", "List and close connections.")
add_list(
    connections,
    "List the connections that have opened a vhost.\n\nFor example: headrace amqp connection list"
    " --user alice",
    _CONNECTIONS,
    "no connections",
    by_user=True,
)
add_list(
    _family("channel", "List channels."),
    "List the channels that are open.\n\nFor example: headrace amqp channel list",
    _CHANNELS,
    "there are no channels",
    by_user=True,
)
add_list(
    _family("consumer", "List consumers."),
    "List the consumers, with what they hold unacknowledged.\n\nFor example: headrace amqp"
    " consumer list --vhost shop",
    _CONSUMERS,
    "no consumers",
    by_user=True,
)


@connections.command
def close(
    name: Annotated[str | None, Parameter(help="As the list shows it: 127.0.0.1:40312.")] = None,
    *,
    user: Annotated[str | None, Parameter(help="All of this user.")] = None,
    reason: Annotated[str | None, Parameter(help="What their clients are told.")] = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Close one connection, or all of a user; clients are told CONNECTION_FORCED.

    For example: headrace amqp connection close 127.0.0.1:40312 --reason maintenance
    """
    if (name is None) == (user is None):
        raise UsageError("name one connection, or a user by --user")
    closed = ask(cluster, "connection.close", name=name, user=user, reason=reason)
    if not closed and name is not None:
        raise CommandError(f"there is no connection {name}", EXIT_NOT_FOUND)
    tell(f"closed {counted(closed, 'connection')}", {"closed": closed}, json=json)
