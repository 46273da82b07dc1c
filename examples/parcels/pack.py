"""Pack the parcels of the queue: `python -m examples.parcels.pack --count 2`."""

import json
from contextlib import suppress

from examples.parcels.post import QUEUE, declare
from examples.rabbitmq.connection import Channel, channel_to, parser


def pack(channel: Channel, count: int | None) -> None:
    """Take parcels out of the queue; None: until Ctrl-C."""
    declare(channel)
    channel.basic_qos(prefetch_count=1)
    for packed, (method, _, body) in enumerate(channel.consume(QUEUE), start=1):
        print(f"packed parcel {json.loads(body)['id']}", flush=True)
        channel.basic_ack(method.delivery_tag)
        if packed == count:
            break
    channel.cancel()


def main() -> None:
    """Pack until Ctrl-C, or until some were packed."""
    made = parser(__doc__)
    made.add_argument("--count", type=int, help="end after so many parcels")
    given = made.parse_args()
    with channel_to(given.url) as channel, suppress(KeyboardInterrupt):
        pack(channel, given.count)


if __name__ == "__main__":
    main()
