"""Ask a RabbitMQ about drawn policies, and compare its verdicts with the recorded ones.

    python -m tests.outside.amqp.management.policy_verdicts            # root, debootstrap
    python -m tests.outside.amqp.management.policy_verdicts --record   # write them

A RabbitMQ of another version than the recorded one may differ, with status 0.
Three kinds of lines: `value` (a policy is accepted, or refused with a reason), `objects` (the
policies of a vhost, and what each of its queues and exchanges has of them), `queue` (the settings
of a queue with arguments and policies, as its publisher sees them).
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any
from urllib.parse import quote

import pika
from pika.exceptions import NackError

from tests.outside.amqp.management.broker import GUEST, ManagedRabbitMQ
from tests.outside.amqp.management.differences import GOLDEN
from tests.outside.amqp.management.recordings import VERSION, load_lines, save
from tests.outside.amqp.management.replay import Answer, over_http
from tests.outside.amqp.peer import RABBITMQ_4_3, prepared

VERDICTS = GOLDEN / "policies.jsonl.gz"
VALUES, ROUNDS, POLICIES, QUEUES = 400, 20, 12, 60
PUBLISHED = 8
Fields = dict[str, Any]

NUMBERS: list[Any] = [0, 1, 2, 3, 5, 16, 255, 300, -1, -2, 3_000_000_001]
OTHERS: list[Any] = [1.5, True, False, None, "", "x", "7D", [], [1], {}, {"a": 1}]
WORDS = [
    "at-most-once", "at-least-once", "drop-head", "reject-publish", "reject-publish-dlx", "all",
    "client-local", "balanced", "random", "least-leaders", "min-masters", "default", "lazy",
    "failed", "returned", "disabled",
]  # fmt: skip
KEYS: dict[str, list[Any]] = {
    "alternate-exchange": ["x"],
    "consumer-disconnected-timeout": [5, 9],
    "consumer-timeout": [5, 9],
    "dead-letter-exchange": ["x"],
    "dead-letter-routing-key": ["k"],
    "dead-letter-strategy": ["at-most-once", "at-least-once"],
    "delayed-retry-max": [5, 9],
    "delayed-retry-min": [5, 9],
    "delayed-retry-type": ["all", "disabled"],
    "delivery-limit": [-1, 3, 30],
    "expires": [500_000, 900_000],
    "initial-cluster-size": [1, 3],
    "max-age": ["1D", "2h"],
    "max-in-memory-bytes": [5, 9],
    "max-in-memory-length": [5, 9],
    "max-length": [5, 9],
    "max-length-bytes": [5_000_000, 9_000_000],
    "message-ttl": [500_000, 900_000],
    "overflow": ["drop-head", "reject-publish", "reject-publish-dlx"],
    "queue-leader-locator": ["client-local", "balanced"],
    "queue-mode": ["lazy", "default"],
    "queue-version": [1, 2],
    "stream-filter-size-bytes": [16, 32],
    "stream-max-segment-size-bytes": [500_000, 900_000],
    "target-group-size": [3, 5],
}
"""Keys of definitions, and valid values that delete no queue meanwhile."""
OPERATOR_KEYS = [
    "delayed-retry-max", "delayed-retry-min", "delayed-retry-type", "delivery-limit", "expires",
    "max-in-memory-bytes", "max-in-memory-length", "max-length", "max-length-bytes", "message-ttl",
    "overflow", "queue-version", "target-group-size",
]  # fmt: skip
APPLY_TO = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"]
OBJECTS: list[tuple[str, str, Fields]] = [
    *(("queues", name, {"x-queue-type": "classic"}) for name in ("a", "ab", "b.a", "a-b", "ba")),
    *(("queues", f"{name}q", {"x-queue-type": "quorum"}) for name in ("a", "ab", "b.a")),
    *(("queues", f"{name}s", {"x-queue-type": "stream"}) for name in ("a", "ab", "b.a")),
    *(("exchanges", name, {}) for name in ("a", "ab", "b.a", "ü")),
]
JOINED: tuple[str, str, Fields] = ("queues", "abq", {"x-queue-type": "quorum"})
"""The queue whose joins are looked at; its type supports all keys of operators."""
PATTERNS = ["", ".*", "^a", "b$", "^ab$", "[ab]", r"\.", "^(a|b)+$", "q$", "^.[^b]*$", "a.?b", "ü"]


class Rabbit:
    """Requests to the management API of a node."""

    def __init__(self, node: ManagedRabbitMQ) -> None:
        self._ask = over_http(node.base)
        self._address = node.address

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        if body is None:
            return self._ask(method, f"/api/{path}", GUEST, None)
        # Operator policies are status 415 without the type.
        headers = {**GUEST, "Content-Type": "application/json"}
        return self._ask(method, f"/api/{path}", headers, json.dumps(body).encode())

    def set_policy(self, name: str, value: Fields, *, operators: bool) -> tuple[int, str]:
        """Set a policy of the vhost `/`; return the status and the reason."""
        answer = self.ask("PUT", f"{_kind(operators)}/%2F/{name}", value)
        reason = json.loads(answer.body)["reason"] if answer.status == 400 else ""
        return answer.status, reason

    def clear(self) -> None:
        """Delete all policies."""
        for operators in (False, True):
            for policy in json.loads(self.ask("GET", _kind(operators)).body):
                self.ask("DELETE", f"{_kind(operators)}/%2F/{policy['name']}")

    def published(self, queue: str) -> tuple[bool, int]:
        """Publish to a queue with confirms: whether any was refused, and how many it then has."""
        parameters = pika.ConnectionParameters(self._address.host, self._address.port)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            refused = False
            for _ in range(PUBLISHED):
                try:
                    channel.basic_publish("", queue, b"x")
                except NackError:
                    refused = True
            return refused, channel.queue_declare(queue, passive=True).method.message_count

    def shown(self, kind: str, name: str) -> Fields:
        """Return a queue or an exchange; without statistics, which would be seconds old."""
        path = f"{kind}/%2F/{quote(name)}?disable_stats=true"
        fields: Fields = json.loads(self.ask("GET", path).body)
        return fields


def _kind(operators: bool) -> str:
    return "operator-policies" if operators else "policies"


def values(rabbit: Rabbit, draw: random.Random) -> Iterator[Fields]:
    """Set drawn policies, many of them invalid; yield each with its verdict."""
    for number in range(VALUES):
        operators = draw.random() < 0.3
        names = draw.sample([*KEYS, "ha-mode", "queue-master-locator"], draw.choice([1, 1, 2, 4]))
        if operators and draw.random() < 0.8:
            names = draw.sample(OPERATOR_KEYS, draw.choice([1, 2, 3]))
        value: Fields = {"pattern": "q", "definition": {name: _any(draw, name) for name in names}}
        if number % 10 == 0:
            field = draw.choice(["priority", "pattern", "apply-to"])
            value[field] = draw.choice(["x", "queue"] if field == "apply-to" else [*OTHERS, 1])
        status, reason = rabbit.set_policy("p", value, operators=operators)
        accepted = status in {201, 204}
        yield {"operators": operators, "value": value, "accepted": accepted, "reason": reason}
    rabbit.clear()


def _any(draw: random.Random, name: str) -> Any:
    if name == "max-age":
        # What is no string crashes RabbitMQ's check.
        return draw.choice(["1D", "2h", "7", "0s", "", "D"])
    valid = KEYS.get(name, ["x"])
    return draw.choice(valid if draw.random() < 0.6 else [*NUMBERS, *OTHERS, *WORDS])


def objects(rabbit: Rabbit, draw: random.Random) -> Iterator[Fields]:
    """Set drawn policies; yield them with what queues and exchanges have of them."""
    for kind, name, arguments in OBJECTS:
        body = {"durable": True, "arguments": arguments}
        body |= {"type": "fanout"} if kind == "exchanges" else {}
        rabbit.ask("PUT", f"{kind}/%2F/{quote(name)}", body)
    rounds = [(_drawn(draw), OBJECTS) for _ in range(ROUNDS)]
    for chosen, read in [*rounds, *((joined, [JOINED]) for joined in _joined())]:
        accepted: dict[bool, dict[str, Fields]] = {False: {}, True: {}}
        for number, (operators, value) in enumerate(chosen):
            if rabbit.set_policy(f"p{number}", value, operators=operators)[0] == 201:
                accepted[operators][f"p{number}"] = value
        found = [_object(rabbit, kind, name) for kind, name, _ in read]
        policies = {"policies": accepted[False], "operator_policies": accepted[True]}
        yield {**policies, "objects": found}
        rabbit.clear()


def _drawn(draw: random.Random) -> list[tuple[bool, Fields]]:
    """Draw policies, every third of operators. Equal priorities are left open: there are none."""
    chosen = []
    for number in range(POLICIES):
        operators = number % 3 == 2
        known = OPERATOR_KEYS if operators or draw.random() < 0.5 else list(KEYS)
        keys = draw.sample(known, draw.choice([1, 1, 2, 4]))
        value = {
            "pattern": draw.choice(PATTERNS),
            "definition": {key: draw.choice(KEYS[key]) for key in keys},
            "priority": number * draw.choice([-1, 1]),
            "apply-to": draw.choice(APPLY_TO),
        }
        chosen.append((operators, value))
    return chosen


def _joined() -> Iterator[list[tuple[bool, Fields]]]:
    """Yield a policy and an operator policy for each key and two values of it."""
    for key in OPERATOR_KEYS:
        for pair in permutations(KEYS[key], 2):
            definitions = [{"delayed-retry-min": 1, key: value} for value in pair]
            yield [
                (operators, {"pattern": "", "definition": definition, "priority": 0})
                for operators, definition in zip((False, True), definitions, strict=True)
            ]


def _object(rabbit: Rabbit, kind: str, name: str) -> Fields:
    answer = rabbit.shown(kind, name)
    if kind == "exchanges":
        return {"name": name, "policy": answer.get("policy")}
    shown = ("type", "policy", "operator_policy", "effective_policy_definition")
    return {"name": name, **{key: answer[key] for key in shown}}


def queues(rabbit: Rabbit, draw: random.Random) -> Iterator[Fields]:
    """Publish to queues with drawn arguments and policies; yield what became of it."""
    settings: dict[str, list[Any]] = {
        "overflow": [None, "drop-head", "reject-publish"],
        "max-length": [None, 2, 4],
        "delivery-limit": [None, -1, 5, 9],
    }
    for number in range(QUEUES):
        queue_type = ("classic", "quorum")[number % 2]
        keys = [key for key in settings if queue_type == "quorum" or key != "delivery-limit"]
        asked, policy, operators = (
            {key: value for key in keys if (value := draw.choice(settings[key])) is not None}
            for _ in range(3)
        )
        name = f"v{number}"
        for value, kind in ((policy, False), (operators, True)):
            if value:
                rabbit.set_policy(
                    name, {"pattern": f"^{name}$", "definition": value}, operators=kind
                )
        arguments = {"x-queue-type": queue_type, **{f"x-{key}": asked[key] for key in asked}}
        rabbit.ask("PUT", f"queues/%2F/{name}", {"durable": True, "arguments": arguments})
        refused, messages = rabbit.published(name)
        yield {
            "arguments": arguments, "policy": policy, "operator_policy": operators,
            "refused": refused, "messages": messages,
            "delivery_limit": rabbit.shown("queues", name).get("delivery_limit"),
        }  # fmt: skip


def asked() -> tuple[str, list[Fields]]:
    """Start a RabbitMQ and return its version and its verdicts."""
    with ManagedRabbitMQ(prepared(release=RABBITMQ_4_3)) as node:
        rabbit, draw = Rabbit(node), random.Random(36)
        return node.version, [
            {"kind": kind, **line}
            for kind, lines in (("value", values), ("objects", objects), ("queue", queues))
            for line in lines(rabbit, draw)
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask and compare, or record; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.outside.amqp.management.policy_verdicts", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--record", action="store_true", help="write the verdicts")
    given = parser.parse_args(arguments)
    version, verdicts = asked()
    if given.record:
        save(VERDICTS, verdicts)
        return 0
    recorded = load_lines(VERDICTS)
    differing = [line for line in verdicts if line not in recorded]
    for line in differing:
        print(json.dumps(line))
    print(f"RabbitMQ {version}: {len(differing)} of {len(verdicts)} verdicts differ")
    return 1 if differing and version == VERSION else 0


if __name__ == "__main__":
    sys.exit(main())
