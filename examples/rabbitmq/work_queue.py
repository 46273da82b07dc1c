"""A work queue: tasks are shared among workers, and none is lost when one of them dies.

    python -m examples.rabbitmq.work_queue work                  in two terminals
    python -m examples.rabbitmq.work_queue send wash=5 iron=1 fold=1

A task is a name and the seconds it takes. The queue is durable and its messages persistent. A
worker has one task at a time (prefetch 1) and acknowledges it when it is done: so one that is busy
gets no second one, and the task of one that dies goes to another.
"""

import time

import pika

from examples.rabbitmq.connection import Channel, Delivery, Properties, channel_to, consume, parser

QUEUE = "tasks"
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def work(channel: Channel) -> None:
    """Do one task after the other."""

    def _do(opened: Channel, delivery: Delivery, _: Properties, body: bytes) -> None:
        name, _, seconds = body.decode().partition("=")
        again = " again" if delivery.redelivered else ""
        print(f"begins {name}{again}", flush=True)
        time.sleep(float(seconds or 0))
        opened.basic_ack(delivery.delivery_tag)
        print(f"has done {name}", flush=True)

    channel.queue_declare(QUEUE, durable=True)
    channel.basic_qos(prefetch_count=1)
    consume(channel, QUEUE, _do)


def send(channel: Channel, tasks: list[str]) -> None:
    """Put tasks into the queue."""
    channel.queue_declare(QUEUE, durable=True)
    for task in tasks:
        channel.basic_publish("", QUEUE, task.encode(), PERSISTENT)
        print(f"sent {task}")


def main() -> None:
    """Work, or send."""
    given = parser(__doc__)
    given.add_argument("what", choices=("work", "send"))
    given.add_argument("tasks", nargs="*", metavar="NAME=SECONDS")
    arguments = given.parse_args()
    with channel_to(arguments.url) as channel:
        if arguments.what == "work":
            work(channel)
        else:
            send(channel, arguments.tasks)


if __name__ == "__main__":
    main()
