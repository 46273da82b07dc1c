"""`headrace amqp`: the tree of commands; connections, channels and consumers of one broker."""

from typing import Annotated

from cyclopts import App, Parameter

from headrace.cli.amqp.asking import Column, OneUser, OneVhost, ask, show, tell
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError
from headrace.terminal.output import counted

_SHOWN = Parameter(show_default=False, negative=())
app = App(
    name="amqp",
    help="See and change what there is for RabbitMQ's clients: vhosts, users, permissions,"
    " exchanges, queues, bindings; see who is connected.",
    default_parameter=_SHOWN,
)
app.command(
    "headrace.cli.amqp.vhosts:app",
    name="vhost",
    alias="vhosts",
    help="Create, list, alter and delete vhosts.",
)
app.command(
    "headrace.cli.amqp.users:app",
    name="user",
    alias="users",
    help="Create, list, alter and delete users of AMQP; take over RabbitMQ's.",
)
app.command(
    "headrace.cli.amqp.permissions:app",
    name="permission",
    alias="permissions",
    help="Set, list and clear permissions: what users may configure, write and read.",
)
app.command(
    "headrace.cli.amqp.topic_permissions:app",
    name="topic-permission",
    alias="topic-permissions",
    help="Set, list and clear permissions of routing keys at topic exchanges.",
)
app.command(
    "headrace.cli.amqp.exchanges:app",
    name="exchange",
    alias="exchanges",
    help="List, declare and delete exchanges.",
)
app.command(
    "headrace.cli.amqp.queues:app",
    name="queue",
    alias="queues",
    help="List, declare, delete and purge queues.",
)
app.command(
    "headrace.cli.amqp.bindings:app",
    name="binding",
    alias="bindings",
    help="List, create and delete bindings.",
)

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
    family = App(name=name, alias=f"{name}s", help=text, default_parameter=_SHOWN)
    app.command(family)
    return family


def _listed_by_user(family: App, text: str, columns: list[Column], none: str) -> None:
    """Add a `list` command to a group, with the options --vhost and --user."""

    def list_(
        *,
        vhost: OneVhost = None,
        user: OneUser = None,
        json: Json = False,
        cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
    ) -> None:
        rows = ask(cluster, f"{family.name[0]}.list", vhost=vhost, user=user)
        show(rows, columns, json=json, none=none)

    list_.__doc__ = text
    family.command(name="list", alias=["ls"])(list_)


connections = _family("connection", "List and close connections.")
_listed_by_user(
    connections,
    "List the connections that have opened a vhost.\n\nFor example: headrace amqp connection list"
    " --user alice",
    _CONNECTIONS,
    "nobody is connected",
)
_listed_by_user(
    _family("channel", "List channels."),
    "List the channels that are open.\n\nFor example: headrace amqp channel list",
    _CHANNELS,
    "there are no channels",
)
_listed_by_user(
    _family("consumer", "List consumers."),
    "List the consumers, with what they hold unacknowledged.\n\nFor example: headrace amqp"
    " consumer list --vhost shop",
    _CONSUMERS,
    "nobody consumes",
)


@connections.command
def close(
    name: Annotated[str | None, Parameter(help="As the list shows it: 127.0.0.1:40312.")] = None,
    *,
    user: Annotated[str | None, Parameter(name="--user", help="All of this user.")] = None,
    reason: Annotated[
        str | None, Parameter(name="--reason", help="What their clients are told.")
    ] = None,
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
