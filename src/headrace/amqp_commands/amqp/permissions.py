"""`headrace amqp permission`: permissions of users in virtual hosts."""

from typing import Annotated

from cyclopts import App, Parameter

from headrace.amqp_commands.amqp.asking import DEFAULT_VHOST, Column, Vhost, add_list, ask
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.output import tell

app = App(
    name="permission",
    help="Set, list and clear permissions: what users may configure, write and read.",
)

Configure = Annotated[
    str, Parameter(help="Names to declare and delete, as a regular expression (RE2).")
]
Write = Annotated[str, Parameter(help="Names to publish and bind to.")]
Read = Annotated[str, Parameter(help="Names to consume and bind from.")]

_COLUMNS: list[Column] = [
    ("USER", "user"), ("VHOST", "vhost"), ("CONFIGURE", "configure"), ("WRITE", "write"),
    ("READ", "read"),
]  # fmt: skip
add_list(
    app,
    "List the permissions of all users, or of one, in all vhosts, or in one.\n\nFor example:"
    " headrace amqp permission list --user alice",
    _COLUMNS,
    "no permissions",
    by_user=True,
)


@app.command(name="set")
def set_(
    user: str,
    configure: Configure,
    write: Write,
    read: Read,
    *,
    vhost: Vhost = DEFAULT_VHOST,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Set the permissions of a user in a vhost, in place of earlier ones; "" matches no name.

    For example: headrace amqp permission set alice '^own\\..*' '^own\\..*' '.*' --vhost shop
    """
    question = {
        "user": user,
        "vhost": vhost,
        "configure": configure,
        "write": write,
        "read": read,
    }
    ask(cluster, "permission.set", **question)
    tell(f"set permissions of {user} in vhost {vhost}", question, json=json)


@app.command
def clear(
    user: str,
    *,
    vhost: Vhost = DEFAULT_VHOST,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Let a user open a vhost no more; channels that consume there are closed.

    For example: headrace amqp permission clear alice --vhost shop
    """
    ask(cluster, "permission.clear", user=user, vhost=vhost)
    tell(
        f"cleared permissions of {user} in vhost {vhost}", {"user": user, "vhost": vhost}, json=json
    )
