"""`headrace amqp vhost`: create, list, alter and delete virtual hosts."""

from typing import Annotated

from cyclopts import App, Parameter

from headrace.amqp_commands.amqp.asking import Column, ask, checked_limit, limit, show
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm
from headrace.terminal.failure import UsageError
from headrace.terminal.output import tell

app = App(name="vhost", help="Create, list, alter and delete vhosts.")

Description = Annotated[str | None, Parameter(name="--description", help="What it is for.")]
MaxConnections = Annotated[
    str | None,
    Parameter(name="--max-connections", help="How many may be open at once; none: any number."),
]
MaxQueues = Annotated[
    str | None,
    Parameter(name="--max-queues", help="How many queues may be declared; none: any number."),
]
_COLUMNS: list[Column] = [
    ("VHOST", "name"), ("CONNECTIONS", "connections"), ("QUEUES", "queues"),
    ("MAX-CONNECTIONS", limit("max_connections")), ("MAX-QUEUES", limit("max_queues")),
    ("DESCRIPTION", lambda row: row["description"] or None),
]  # fmt: skip


@app.command(name="list", alias=["ls"])
def list_(
    *,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """List the vhosts, with their limits.

    For example: headrace amqp vhost list
    """
    show(ask(cluster, "vhost.list"), _COLUMNS, json=json, none="there are no vhosts")


@app.command
def create(
    name: str,
    *,
    description: Description = None,
    max_connections: MaxConnections = None,
    max_queues: MaxQueues = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Create a vhost; users need permissions in it before they can use it.

    For example: headrace amqp vhost create shop --max-queues 1000
    """
    _put(cluster, "vhost.create", name, description, max_connections, max_queues)
    tell(f"created vhost {name}", {"vhost": name}, json=json)


@app.command
def alter(
    name: str,
    *,
    description: Description = None,
    max_connections: MaxConnections = None,
    max_queues: MaxQueues = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Change the limits of a vhost; open connections stay.

    For example: headrace amqp vhost alter shop --max-connections none
    """
    if description is max_connections is max_queues is None:
        raise UsageError("say what to alter: --description, --max-connections or --max-queues")
    _put(cluster, "vhost.alter", name, description, max_connections, max_queues)
    tell(f"altered vhost {name}", {"vhost": name}, json=json)


@app.command(alias="rm")
def delete(
    name: str,
    *,
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Delete a vhost with its queues and their messages; its connections are closed.

    For example: headrace amqp vhost delete shop
    """
    confirm(f"Delete vhost {name} with all its queues and messages?", yes=yes)
    ask(cluster, "vhost.delete", name=name)
    tell(f"deleted vhost {name}", {"vhost": name}, json=json)


def _put(
    cluster: BrokerOptions,
    operation: str,
    name: str,
    description: str | None,
    max_connections: str | None,
    max_queues: str | None,
) -> None:
    limits = {
        "max_connections": checked_limit("--max-connections", max_connections),
        "max_queues": checked_limit("--max-queues", max_queues),
    }
    ask(cluster, operation, name=name, description=description, **limits)
