"""`headrace amqp user`: users of the broker, with RabbitMQ's tags and limits."""

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.amqp_commands.amqp.asking import Column, ask, checked_limit, limit, show
from headrace.client.admin.users import User, describe_users, set_credential
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.secret import Secret
from headrace.security.sasl.scram import HASHES, ITERATIONS_MIN
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm_on_terminal
from headrace.terminal.failure import CommandError, UsageError
from headrace.terminal.output import tell
from headrace.terminal.passwords import PasswordFile, password_of

app = App(name="user", help="Create, list, alter and delete users of AMQP; take over RabbitMQ's.")

Tags = Annotated[
    tuple[str, ...],
    Parameter(name="--tag", help="administrator, monitoring or any; may be given several times."),
]
MaxConnections = Annotated[
    str | None,
    Parameter(
        name="--max-connections", help="The most open connections of the user; none: no limit."
    ),
]
MaxChannels = Annotated[
    str | None,
    Parameter(name="--max-channels", help="How many channels on all of them; none: any number."),
]
_SHA256 = "rabbit_password_hashing_sha256"
_COLUMNS: list[Column] = [
    ("USER", "name"), ("TAGS", "tags"), ("PASSWORD", "password"),
    ("CONNECTIONS", "connections"), ("MAX-CONNECTIONS", limit("max_connections")),
    ("MAX-CHANNELS", limit("max_channels")),
]  # fmt: skip


@app.command(name="list", alias=["ls"])
def list_(
    *,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """List users that have a password, tags or permissions, and how each password is kept.

    For example: headrace amqp user list
    """
    with cluster.client() as client:
        kept = run(ask_amqp(client, "user.list"))
        known = run(describe_users(client))
    show(_merged(kept, known), _COLUMNS, json=json, none="there are no users")


def _merged(kept: list[Mapping[str, Any]], known: list[User]) -> list[Mapping[str, Any]]:
    """Return the users of both lists, with the form in which each one's password is stored."""
    with_password = {user.name for user in known}
    nothing = {"tags": [], "max_connections": -1, "max_channels": -1, "connections": 0}
    rows: dict[str, Mapping[str, Any]] = {name: {"name": name, **nothing} for name in with_password}
    for row in kept:
        rows[row["name"]] = row
    return [
        {
            **{name: value for name, value in row.items() if name != "hashed"},
            "password": "SCRAM"
            if name in with_password
            else "RabbitMQ's hash"
            if row.get("hashed")
            else "",
        }
        for name, row in sorted(rows.items())
    ]


@app.command
def create(
    name: str,
    *,
    password_file: PasswordFile = None,
    tag: Tags = (),
    max_connections: MaxConnections = None,
    max_channels: MaxChannels = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Create a user of the broker; the password is asked for, or read from a file.

    For example: headrace amqp user create alice --password-file secret.txt --tag monitoring
    """
    with cluster.client() as client:
        if any(user.name == name for user in run(describe_users(client))):
            raise CommandError(f"there is a user {name} already; see: headrace amqp user alter")
        _put(client, name, tag, max_connections, max_channels)
        _set_password(client, name, password_of(name, password_file, twice=True))
    tell(f"created user {name}", {"user": name, "tags": list(tag)}, json=json)


@app.command
def alter(
    name: str,
    *,
    password_file: PasswordFile = None,
    tag: Tags = (),
    no_tags: Annotated[bool, Parameter(help="Take all tags.")] = False,
    max_connections: MaxConnections = None,
    max_channels: MaxChannels = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Give a user another password, other tags or limits; what is not said stays.

    For example: headrace amqp user alter alice --tag administrator --max-channels 100
    """
    if tag and no_tags:
        raise UsageError("--tag and --no-tags exclude each other")
    if {password_file, max_connections, max_channels} == {None} and not tag and not no_tags:
        raise UsageError(
            "say what to alter: --password-file, --tag, --no-tags, --max-connections or"
            " --max-channels"
        )
    with cluster.client() as client:
        _put(client, name, tag, max_connections, max_channels, no_tags=no_tags)
        if password_file is not None:
            _set_password(client, name, password_of(name, password_file, twice=True))
    tell(f"altered user {name}", {"user": name}, json=json)


@app.command(name="import")
def import_(
    name: str,
    *,
    hash_file: Annotated[
        PasswordFile,
        Parameter(
            name="--hash-file",
            allow_leading_hyphen=True,
            help="Where the password_hash of RabbitMQ's definitions is, one line; - for standard"
            " input.",
        ),
    ],
    algorithm: Annotated[
        str, Parameter(show_default=True, help="RabbitMQ's name of it.")
    ] = _SHA256,
    tag: Tags = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Take over a user of RabbitMQ with the hash of its password.

    The hash is valid until the first login, which replaces it by SCRAM credentials. For
    example: jq -r '.users[] | select(.name=="alice").password_hash' definitions.json | headrace
    amqp user import alice --hash-file -
    """
    if hash_file is None:
        raise UsageError("--hash-file is missing")
    with cluster.client() as client:
        if any(user.name == name for user in run(describe_users(client))):
            raise CommandError(f"user {name} exists and has a password")
        hashed = password_of(name, hash_file, twice=False).reveal()
        tags = list(tag) or None
        question = {"name": name, "tags": tags, "hash": hashed, "algorithm": algorithm}
        run(ask_amqp(client, "user.put", **question))
    tell(f"imported user {name}", {"user": name, "tags": list(tag)}, json=json)


@app.command(alias="rm")
def delete(
    name: str,
    *,
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Delete a user, its password, permissions and AMQP connections; it asks on a terminal.

    For example: headrace amqp user delete alice
    """
    confirm_on_terminal(f"Delete user {name} with all its permissions?", yes=yes)
    ask(cluster, "user.delete", name=name)
    tell(f"deleted user {name}", {"user": name}, json=json)


def _put(
    client: Client,
    name: str,
    tags: tuple[str, ...],
    max_connections: str | None,
    max_channels: str | None,
    *,
    no_tags: bool = False,
) -> None:
    question = {
        "name": name,
        "tags": list(tags) if tags or no_tags else None,
        "max_connections": checked_limit("--max-connections", max_connections),
        "max_channels": checked_limit("--max-channels", max_channels),
    }
    run(ask_amqp(client, "user.put", **question))


def _set_password(client: Client, name: str, password: Secret) -> None:
    # A request per mechanism: brokers refuse two alterations of a user in one request.
    for mechanism in HASHES:
        run(set_credential(client, name, mechanism, password, ITERATIONS_MIN))
