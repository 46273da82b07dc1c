"""Scenarios of the C++ client (PyPI rocketmq 0.4.4) that are recorded: recorded.py ADDRESS LABELS.

Each announces itself to the recorder. Runs in an environment of its own, which has the package.
"""

import os
import socket
import sys
import time
from typing import Any

LABELS = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def label(scenario: str) -> None:
    """Announce a scenario."""
    time.sleep(0.05)
    text = scenario if scenario == "-" else f"cpp0.4.4/{scenario}"
    LABELS.sendto(text.encode(), ("127.0.0.1", int(sys.argv[2])))
    time.sleep(0.05)


def main(client: Any) -> None:
    """Play the scenarios by the package's module."""
    label("producer-start")
    producer = client.Producer("PG_cpp")
    producer.set_namesrv_addr(sys.argv[1])
    producer.start()
    label("send-sync")
    message = client.Message("GoT")
    message.set_keys("ck")
    message.set_tags("A")
    message.set_property("x", "1")
    message.set_body("cpp")
    producer.send_sync(message)
    label("send-oneway")
    producer.send_oneway(message)
    label("send-delay")
    message.set_delay_time_level(1)
    producer.send_sync(message)
    received: list[bytes] = []

    def receive(message: Any) -> bool:
        received.append(message.body)
        return True

    label("push-start")
    consumer = client.PushConsumer("CG_cpp")
    consumer.set_namesrv_addr(sys.argv[1])
    consumer.subscribe("GoT", receive)
    consumer.start()
    time.sleep(8)
    print("received", len(received), flush=True)
    label("shutdown")
    consumer.shutdown()
    producer.shutdown()
    label("-")
    os._exit(0)  # its threads do not end


if __name__ == "__main__":
    import importlib

    main(importlib.import_module("rocketmq.client"))
