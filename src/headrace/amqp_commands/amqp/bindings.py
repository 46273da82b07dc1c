"""`headrace amqp binding`: list, create and delete bindings."""

from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from headrace.amqp_commands.amqp.arguments import Arguments, arguments_of
from headrace.amqp_commands.amqp.asking import DEFAULT_VHOST, Column, Vhost, add_list, ask
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.output import counted, tell

app = App(name="binding", help="List, create and delete bindings.")

Source = Annotated[str, Parameter(help="The exchange that it leads from.")]
Name = Annotated[str, Parameter(help="The queue or the exchange that it leads to.")]
To = Annotated[
    Literal["queue", "exchange"],
    Parameter(name="--to", show_default=True, help="What the destination is."),
]
Key = Annotated[
    str, Parameter(name="--routing-key", help="The routing key; empty, if you do not say.")
]

_COLUMNS: list[Column] = [
    ("VHOST", "vhost"), ("SOURCE", "source"), ("TO", "destination_type"),
    ("DESTINATION", "destination"), ("ROUTING-KEY", "routing_key"), ("ARGUMENTS", "arguments"),
]  # fmt: skip
add_list(
    app,
    "List the bindings; the default exchange has one to each queue.\n\nFor example: headrace amqp"
    " binding list --vhost shop",
    _COLUMNS,
    "there are no bindings",
)


@app.command
def create(
    source: Source,
    destination: Name,
    *,
    routing_key: Key = "",
    to: To = "queue",
    argument: Arguments = (),
    vhost: Vhost = DEFAULT_VHOST,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Bind a queue, or an exchange, to an exchange; no error where it is bound so.

    For example: headrace amqp binding create logs errors --routing-key 'error.#' --vhost shop;
    headrace amqp binding create logs archive --to exchange
    """
    binding = _binding(source, destination, routing_key, to, argument)
    created = ask(cluster, "binding.create", vhost=vhost, **binding)["created"]
    which = f"{to} {destination} to exchange {source} in vhost {vhost}"
    text = f"bound {which}" if created else f"there is that binding already of {which}"
    tell(text, {"vhost": vhost, **_row(binding), "created": created}, json=json)


@app.command(alias="rm")
def delete(
    source: Source,
    destination: Name,
    *,
    routing_key: Key = "",
    to: To = "queue",
    argument: Arguments = (),
    vhost: Vhost = DEFAULT_VHOST,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Delete a binding, by its routing key and its arguments as the list shows them.

    For example: headrace amqp binding delete logs errors --routing-key 'error.#' --vhost shop
    """
    binding = _binding(source, destination, routing_key, to, argument)
    deleted = ask(cluster, "binding.delete", vhost=vhost, **binding)
    text = f"deleted {counted(deleted, 'binding')} of {to} {destination} to exchange {source}"
    value = {"vhost": vhost, **_row(binding), "deleted": deleted}
    tell(f"{text} in vhost {vhost}", value, json=json)


def _binding(
    source: str, destination: str, routing_key: str, to: str, argument: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "source": source,
        "to": to,
        "destination": destination,
        "routing_key": routing_key,
        "arguments": arguments_of(argument),
    }


def _row(binding: dict[str, Any]) -> dict[str, Any]:
    """Return a binding with the field names that `binding list` shows."""
    return {("destination_type" if name == "to" else name): binding[name] for name in binding}
