"""What the programs share: where the broker is, and a channel to it."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

Channel: TypeAlias = BlockingChannel
Delivery: TypeAlias = Basic.Deliver
Properties: TypeAlias = BasicProperties
URL = "amqp://guest:guest@127.0.0.1:5672/%2F"
Deliver = Callable[[Channel, Delivery, Properties, bytes], None]
"""A consumer's function: channel, delivery, properties and body."""


def parser(about: str | None) -> argparse.ArgumentParser:
    """A command line with `--url`."""
    made = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--url", default=URL, help=f"the broker, {URL} without it")
    return made


@contextmanager
def channel_to(url: str) -> Iterator[Channel]:
    """A channel of a connection that is closed at the end."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def consume(channel: Channel, queue: str, deliver: Deliver, *, auto_ack: bool = False) -> None:
    """Hand each message to a function until Ctrl-C."""
    channel.basic_consume(queue, deliver, auto_ack=auto_ack)
    print("waits for messages; Ctrl-C ends it", flush=True)
    with suppress(KeyboardInterrupt):
        channel.start_consuming()
