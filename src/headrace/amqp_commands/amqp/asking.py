"""Requests of `headrace amqp` commands to a broker, and printing of the results."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.client.sync import run
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import UsageError
from headrace.terminal.output import Cell, print_list, tell

Row = Mapping[str, Any]
Column = tuple[str, str | Callable[[Row], Cell]]
"""A title, and the field of a row or the function that returns its cell."""

DEFAULT_VHOST = "/"
Vhost = Annotated[
    str, Parameter(name=["--vhost", "-p"], show_default=True, help="The vhost that is meant.")
]
OneVhost = Annotated[
    str | None, Parameter(name=["--vhost", "-p"], help="Of this vhost; of all, if you do not say.")
]
OneUser = Annotated[str | None, Parameter(name="--user", help="Of this user alone.")]


def ask(cluster: BrokerOptions, operation: str, **question: Any) -> Any:  # noqa: ANN401 - JSON
    """Run an operation on the broker and return its result. Raises ApiError."""
    with cluster.client() as client:
        return run(ask_amqp(client, operation, **question))


def show(rows: Sequence[Row], columns: Sequence[Column], *, json: bool, none: str) -> None:
    """Print rows as a table or JSON; print `none` as a note if there are no rows."""
    cells = ([cell(row, what) for _, what in columns] for row in rows)
    print_list(rows, [title for title, _ in columns], cells, none=none, json=json)


def add_list(
    family: App, text: str, columns: Sequence[Column], none: str, *, by_user: bool = False
) -> None:
    """Add the command `list` of a vhost's objects to a group of commands.

    `text`: its help, which ends with an example; `by_user`: whether it has the option --user.
    """
    noun = family.name[0]

    def by_vhost(
        *,
        vhost: OneVhost = None,
        json: Json = False,
        cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
    ) -> None:
        show(ask(cluster, f"{noun}.list", vhost=vhost), columns, json=json, none=none)

    def by_vhost_and_user(
        *,
        vhost: OneVhost = None,
        user: OneUser = None,
        json: Json = False,
        cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
    ) -> None:
        show(ask(cluster, f"{noun}.list", vhost=vhost, user=user), columns, json=json, none=none)

    list_ = by_vhost_and_user if by_user else by_vhost
    list_.__name__ = "list"  # Cyclopts shows it in errors
    family.command(list_, name="list", alias=["ls"], help=text)


def tell_declared(noun: str, vhost: str, declared: Row, *, json: bool) -> None:
    """Print the result of a declaration, which may have found the same object."""
    name = declared[noun]
    if declared["created"]:
        text = f"declared {noun} {name} in vhost {vhost}"
    else:
        text = f"{noun} {name} is there already in vhost {vhost}, and the same"
    tell(text, {"vhost": vhost, **declared}, json=json)


def limit(name: str) -> Callable[[Row], Cell]:
    """Return a column function that shows the limit in field `name`; a limit below 0 is `-`."""
    return lambda row: None if row[name] < 0 else int(row[name])


def flag(name: str) -> Callable[[Row], Cell]:
    """Return a column function that shows field `name` as yes or no."""
    return lambda row: "yes" if row[name] else "no"


def checked_limit(option: str, value: str | None) -> int | None:
    """Return the number of a limit option; -1 for `none`, None if not given. Raises UsageError."""
    if value is None:
        return None
    if value == "none":
        return -1
    if not value.isascii() or not value.isdigit() or len(value) > 9:
        raise UsageError(f"{option} {value}: must be a number, or none")
    return int(value)


def cell(row: Row, what: str | Callable[[Row], Cell]) -> Cell:
    """Return a field of a row, or what a function makes of the row, as a table shows it."""
    if callable(what):
        return what(row)
    value = row[what]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, list):
        return ",".join(map(str, value)) or None
    if isinstance(value, dict):
        return ",".join(f"{name}={inner}" for name, inner in value.items()) or None
    if value is None:
        return None
    return str(value) if value != "" else '""'
