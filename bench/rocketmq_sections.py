"""Sections of RocketMQ's protocol: a start, and topics of thousands of queues."""

import time
from collections.abc import Callable, Sequence

from bench import rocketmq_load
from bench.report import Goal
from bench.rocketmq_rows import ANONYMOUS, RSS, SECONDS, WINDOW, served
from bench.sections import Figures, Found, Section, count
from bench.start import IDLE_SECONDS
from bench.subjects import Broker, Subject, in_turn

QUEUES = (1, 1000, 10_000)
SHARE = "most queues / one queue"


def start(subjects: Sequence[Subject], rounds: int) -> Found:
    """Exec to the first acknowledged send, and the memory some seconds after it."""
    for number in range(rounds):
        for subject in in_turn(subjects, number):
            with subject.broker(False) as broker:
                address = served(broker).name_server
                first = rocketmq_load.first_acknowledged_send(address, broker.started)
                time.sleep(IDLE_SECONDS)
                yield (
                    subject.name,
                    {
                        "exec to first ack s": first,
                        f"idle: {RSS}": broker.rss_megabytes(),
                        f"idle: {ANONYMOUS}": served(broker).anonymous_megabytes(),
                    },
                )


def many_queues(queues: Sequence[int]) -> Callable[[Sequence[Subject], int], Found]:
    """Sends to the queues of a topic in turn, for topics of so many queues."""

    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        for number in range(rounds):
            for subject in in_turn(subjects, number):
                with subject.broker(False) as broker:
                    yield subject.name, _sent_to(broker, queues)

    return measure


def _sent_to(broker: Broker, queues: Sequence[int]) -> Figures:
    address = served(broker).name_server
    found: Figures = {}
    rates = []
    for number in queues:
        asked: dict[str, object] = {"topic": f"bench-{number}", "queues": number, "window": WINDOW}
        rocketmq_load.run("create", address, topic=asked["topic"], queues=number)
        rocketmq_load.run("send", address, **asked, messages=max(2 * number, 20_000))
        done = rocketmq_load.run("send", address, **asked, seconds=SECONDS)
        found[f"{count(number)} queues: messages/s"] = done.per_second
        rates.append(done.per_second)
    return found | {SHARE: rates[-1] / rates[0]}


def rocketmq_sections(scale: float) -> list[Section]:
    """Every section, in the order in which they run."""
    queues = [max(int(number * scale), 1) for number in QUEUES]
    return [
        Section(
            "start, name server and broker",
            start,
            seconds_max=600,
            goals={
                "exec to first ack s": Goal(most=0.1),
                f"idle: {RSS}": Goal(most=0.15),
            },
        ),
        Section(
            "prepared frames, sends to the queues of a topic in turn",
            many_queues(queues),
            seconds_max=900,
            goals={f"{count(number)} queues: messages/s": Goal(least=1) for number in queues},
            ceilings={SHARE: Goal(least=0.7)},
        ),
    ]
