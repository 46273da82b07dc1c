"""`headrace amqp drain`, `revive` and `broker list`: maintenance of brokers."""

from contextlib import suppress
from typing import Annotated

from cyclopts import App, Parameter

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.amqp_commands.amqp.asking import Column, ask, show
from headrace.client.admin import drained_brokers
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.errors import ApiError
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError
from headrace.terminal.output import counted, note, tell

brokers = App(name="broker", alias="brokers", help="List brokers.")
_COLUMNS: list[Column] = [
    ("BROKER", "broker"), ("AMQP", "serves_queues"), ("DRAINED", "drained"),
    ("QUEUES-LED", "queues_led"),
]  # fmt: skip
Broker = Annotated[int, Parameter(help="The broker's id.")]


@brokers.command(name="list", alias=["ls"])
def list_(
    *,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """List the brokers: whether they have AMQP queues, are drained, and how many queues they lead.

    For example: headrace amqp broker list
    """
    show(ask(cluster, "queue-broker.list"), _COLUMNS, json=json, none="there are no brokers")


def drain(
    broker: Broker,
    /,
    *,
    wait: Annotated[
        float, Parameter(show_default=True, help="Seconds to wait until others lead.")
    ] = 60.0,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Prepare a broker for maintenance, as rabbitmq-upgrade drain.

    Other brokers lead its queues and Kafka partitions; its replicas stay in sync. Its AMQP clients
    are disconnected and new ones refused, until headrace amqp revive, also after restarts. For
    example: headrace amqp drain 2
    """
    with cluster.client() as client:
        _check_registered(client, broker)
        led = run(drained_brokers.drain(client, broker, wait))
        with suppress(ApiError):  # a broker without AMQP does not list them
            rows = run(ask_amqp(client, "queue-broker.list"))
            others = [row for row in rows if row["serves_queues"] and row["broker"] != broker]
            if all(row["drained"] for row in others):
                note("no other broker accepts AMQP clients until one is revived")
    more = f", and leads {counted(len(led), 'partition')} that no other can" if led else ""
    answer = {"broker": broker, "drained": True, "leads": [each._asdict() for each in led]}
    tell(f"broker {broker} is drained{more}", answer, json=json)


def revive(
    broker: Broker,
    /,
    *,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """End a broker's maintenance: it may lead again and accepts AMQP clients.

    Leaders move back by headrace amqp queue rebalance, or as auto.leader.rebalance.enable says. For
    example: headrace amqp revive 2
    """
    with cluster.client() as client:
        _check_registered(client, broker)
        run(drained_brokers.revive(client, broker))
    tell(f"broker {broker} is revived", {"broker": broker, "drained": False}, json=json)


def _check_registered(client: Client, broker: int) -> None:
    """Raise CommandError unless the broker is registered: it keeps and applies the setting."""
    if broker not in run(client.metadata()).brokers:
        text = f"broker {broker} is not registered; headrace cluster brokers lists the brokers"
        raise CommandError(text, EXIT_NOT_FOUND)
