"""What security costs: the authorizer in single-record requests, TLS, and a crowd of handshakes.

`python -m bench.secured handshakes HOST PORT AUTHORITY RATE SECONDS` is the process that makes
them.
"""

import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from bench import latency, librdkafka, rawload
from bench.subjects import Broker, Subject, free_port, in_turn
from tests.support.security.certificates import Authority

ACLS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
    "allow.everyone.if.no.acl.found=true\n"
)
"""Whoever comes may make the first rules: what has a rule is then bound by it."""
ANYBODY = "super.users=User:ANONYMOUS\n"
TOPIC = "ruled"
RULES_AT_ONCE = 1000
TURNS = 4
"""Measurements of each broker in a round, in turn: they meet the same machine."""
RATE, HANDSHAKES = 5000, 100
Figures = dict[str, float]
Found = Iterator[tuple[str, Figures]]


def add_rules(broker: Broker, count: int) -> None:
    """Allow everybody the topic, and `count` - 1 users one other name or prefix each."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    allow, anywhere = AclPermissionType.ALLOW, "*"
    patterns = (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
    rules = [
        AclBinding(ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:ANONYMOUS",
                   anywhere, AclOperation.ALL, allow),
        *(AclBinding(ResourceType.TOPIC, f"topic-{at:05}", patterns[at % 2], f"User:user-{at:05}",
                     anywhere, AclOperation.WRITE, allow) for at in range(count - 1)),
    ]  # fmt: skip
    for at in range(0, len(rules), RULES_AT_ONCE):
        for future in admin.create_acls(rules[at : at + RULES_AT_ONCE]).values():
            future.result(60)


def authorizer(rules: int, seconds: float) -> Callable[[Sequence[Subject], int], Found]:
    """Make the section of single-record requests: open, by one rule, and by `rules` of them."""

    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        for number in range(rounds):
            for subject in in_turn(subjects, number):
                yield subject.name, _authorized(subject, rules, seconds)

    return measure


def _authorized(subject: Subject, rules: int, seconds: float) -> Figures:
    counts = {"open": 0, "1 rule": 1, f"{rules:,} rules": rules}
    with ExitStack() as stack:
        brokers = {
            name: stack.enter_context(subject.broker(False, ACLS if count else ""))
            for name, count in counts.items()
        }
        for name, broker in brokers.items():
            broker.create_topic(TOPIC, 1)
            if counts[name]:
                add_rules(broker, counts[name])
            _requests(broker, 0.5)
        requests, taken, cpu = (dict.fromkeys(brokers, 0.0) for _ in range(3))
        for turn in range(TURNS):
            for name in in_turn(list(brokers), turn):
                load, used = _requests(brokers[name], seconds / TURNS)
                requests[name] += load.requests
                taken[name] += load.seconds
                cpu[name] += used
    rates = {name: requests[name] / taken[name] for name in brokers}
    each = {name: cpu[name] / requests[name] * 1e6 for name in brokers}
    found = {f"{name}: requests/s": rate for name, rate in rates.items()}
    for name in list(brokers)[1:]:
        found[f"{name}: % of open"] = 100 * rates[name] / rates["open"]
        found[f"{name}: CPU / open"] = each[name] / each["open"]
    return found


def _requests(broker: Broker, seconds: float) -> tuple[rawload.Load, float]:
    cpu = broker.cpu_seconds()
    load = rawload.produce(
        broker.bootstrap, TOPIC, partitions=1, connections=4, in_flight=32, record_bytes=100,
        batch_bytes=1, acks=1, seconds=seconds,
    )  # fmt: skip
    return load, broker.cpu_seconds() - cpu


@dataclass(frozen=True)
class Secured:
    """A broker with a TLS listener beside its own, and who signed its certificate (P-256)."""

    broker: Broker
    port: int
    authority: Path

    @property
    def bootstrap(self) -> str:
        """Where it speaks TLS."""
        return f"127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """What librdkafka is told."""
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority)}


@contextmanager
def secured(subject: Subject) -> Iterator[Secured]:
    """Start a subject's broker with a TLS listener."""
    place = Path(tempfile.mkdtemp(prefix="bench-secured-"))
    try:
        authority = Authority(place)
        port = free_port()
        settings = (
            f"{ANYBODY}ssl.keystore.type=PEM\nssl.keystore.location={authority.sign().both}\n"
        )
        with subject.broker(False, settings, tls_port=port) as broker:
            yield Secured(broker, port, authority.certificate)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def moved(record_bytes: int, seconds: float) -> Callable[[Sequence[Subject], int], Found]:
    """Make the section that produces and consumes by TLS, brokers in turn."""

    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        with ExitStack() as stack:
            brokers = {one.name: stack.enter_context(secured(one)) for one in subjects}
            for name, made in brokers.items():
                _moved(made, f"warm-{name}", record_bytes, min(seconds, 3.0))
            for number in range(rounds):
                for subject in in_turn(subjects, number):
                    made = brokers[subject.name]
                    yield subject.name, _moved(made, f"tls-{number}", record_bytes, seconds)

    return measure


def _moved(made: Secured, topic: str, record_bytes: int, seconds: float) -> Figures:
    broker = made.broker
    broker.create_topic(topic, 1)
    before = broker.cpu_seconds()
    sent = librdkafka.produce(
        made.bootstrap, topic, acks="1", record_bytes=record_bytes, seconds=seconds, partitions=1,
        settings=made.settings,
    )  # fmt: skip
    between = broker.cpu_seconds()
    got = librdkafka.consume(
        made.bootstrap, topic, records=sent.records, record_bytes=record_bytes, partitions=1,
        settings=made.settings,
    )  # fmt: skip
    after = broker.cpu_seconds()
    broker.delete_topic(topic)
    return {
        "produce records/s": sent.per_second,
        "produce CPU-s/GB": (between - before) / sent.gigabytes,
        "consume records/s": got.per_second,
        "consume CPU-s/GB": (after - between) / got.gigabytes,
    }


def crowd(seconds: float) -> Callable[[Sequence[Subject], int], Found]:
    """Make the section of messages by plain text, alone and beside handshakes."""

    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        for number in range(rounds):
            for subject in in_turn(subjects, number):
                with secured(subject) as made:
                    yield subject.name, _crowded(made, seconds)

    return measure


def _crowded(made: Secured, seconds: float) -> Figures:
    made.broker.create_topic(TOPIC, 1)
    lasts = seconds * (2 + latency.WARM_UP_SHARE)
    probe = latency.Probe(made.broker.bootstrap, TOPIC, rate=RATE, seconds_max=lasts + 2)
    time.sleep(seconds * (1 + latency.WARM_UP_SHARE))
    begun = time.monotonic()
    command = [sys.executable, "-m", "bench.secured", "handshakes", "127.0.0.1", str(made.port)]
    done = subprocess.run(
        [*command, str(made.authority), str(HANDSHAKES), str(seconds)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    ended = time.monotonic()
    probe.stop()
    idle = probe.percentiles(probe.started() + seconds * latency.WARM_UP_SHARE, begun)
    beside = probe.percentiles(begun + 0.5, ended)
    return {
        "alone p99 ms": idle.p99,
        "beside them p99 ms": beside.p99,
        "p99 beside them / alone": beside.p99 / idle.p99,
        "handshakes/s": float(done.stdout),
    }


def shake_hands(host: str, port: int, authority: str, rate: float, seconds: float) -> float:
    """Make `rate` new connections a second, without resuming; returns how many a second it were."""
    context = ssl.create_default_context(cafile=authority)
    began, count = time.monotonic(), 0
    while (now := time.monotonic()) < began + seconds:
        ahead = began + count / rate - now
        if ahead > 0:
            time.sleep(ahead)
        with (
            socket.create_connection((host, port), 10) as plain,
            context.wrap_socket(plain, server_hostname="localhost"),
        ):
            count += 1
    return count / (time.monotonic() - began)


if __name__ == "__main__":
    _, _, host, port, authority, rate, seconds = sys.argv
    print(shake_hands(host, int(port), authority, float(rate), float(seconds)))
