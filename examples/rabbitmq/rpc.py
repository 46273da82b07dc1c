"""Calling a procedure over a queue: the question says where the answer is to go.

    python -m examples.rabbitmq.rpc serve
    python -m examples.rabbitmq.rpc call "how many words are these"

The client consumes from `amq.rabbitmq.reply-to`, which is no queue: the broker hands the answer
straight to the channel that asked. `correlation_id` says which question an answer is for.
"""

import time
import uuid

import pika

from examples.rabbitmq.connection import Channel, Delivery, Properties, channel_to, consume, parser

QUEUE = "word-counts"
REPLIES = "amq.rabbitmq.reply-to"
ANSWER_SECONDS_MAX = 10


def serve(channel: Channel) -> None:
    """Count the words of each question."""

    def _answer(opened: Channel, delivery: Delivery, properties: Properties, body: bytes) -> None:
        told = pika.BasicProperties(correlation_id=properties.correlation_id)
        opened.basic_publish("", properties.reply_to, b"%d" % len(body.split()), told)
        opened.basic_ack(delivery.delivery_tag)

    channel.queue_declare(QUEUE, auto_delete=True)
    channel.basic_qos(prefetch_count=1)
    consume(channel, QUEUE, _answer)


def call(channel: Channel, text: str) -> int:
    """Ask, and wait for the answer. TimeoutError."""
    answers: dict[str, int] = {}

    def _take(_: Channel, __: Delivery, properties: Properties, body: bytes) -> None:
        answers[properties.correlation_id] = int(body)

    # Before the question: an answer needs somebody who waits for it.
    channel.basic_consume(REPLIES, _take, auto_ack=True)
    question = str(uuid.uuid4())
    asked = pika.BasicProperties(reply_to=REPLIES, correlation_id=question)
    channel.basic_publish("", QUEUE, text.encode(), asked)
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while question not in answers:
        if time.monotonic() > deadline:
            raise TimeoutError("nobody answers: is the server running?")
        channel.connection.process_data_events(1)
    return answers[question]


def main() -> None:
    """Serve, or call."""
    given = parser(__doc__)
    given.add_argument("what", choices=("serve", "call"))
    given.add_argument("text", nargs="?", default="")
    arguments = given.parse_args()
    with channel_to(arguments.url) as channel:
        if arguments.what == "serve":
            serve(channel)
        else:
            print(call(channel, arguments.text))


if __name__ == "__main__":
    main()
