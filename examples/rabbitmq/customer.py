"""Who asks the shop for something: `python -m examples.rabbitmq.customer`, beside a worker.

What is asked first waits: start it before the worker, and the urgent parcel is packed first.
"""

import time

from examples.rabbitmq import shop

SECONDS_MAX = 60


def main() -> None:
    """Ask for each thing, and print what comes of it."""
    for parcel, priority in (("a letter", 1), ("a gift", 5), ("medicine", 9)):
        shop.pack.apply_async((parcel,), priority=priority)
    asked = time.time()
    reminded = shop.remind.apply_async(countdown=2)
    charged = shop.charge.delay(2)
    refunded = shop.refund.delay(7)
    print(f"the total is {shop.total.delay(3, 4, 5).get(timeout=SECONDS_MAX)}")
    # Without a priority it comes last.
    print(f"packed: {', '.join(shop.packed.delay().get(timeout=SECONDS_MAX))}")
    print(f"the bank was asked {charged.get(timeout=SECONDS_MAX)} times")
    try:
        refunded.get(timeout=SECONDS_MAX)
    except ValueError as refused:
        print(f"no refund: {refused}")
    print(f"reminded after {reminded.get(timeout=SECONDS_MAX) - asked:.0f} seconds")


if __name__ == "__main__":
    main()
