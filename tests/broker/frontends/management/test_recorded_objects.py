"""RabbitMQ's recorded calls about exchanges, queues and bindings, replayed against a broker."""

from typing import Any

import pytest

from headrace.testing import BrokerThread
from tests.outside.amqp.management.compare import differences
from tests.outside.amqp.management.differences import MANAGEMENT, read_explained
from tests.outside.amqp.management.recordings import load
from tests.outside.amqp.management.replay import Replay, over_http
from tests.outside.amqp.management.steps import steps
from tests.support.amqp.management import SETTINGS, administer, make_vhost, port_of
from tests.support.listed_differences import fits, unexplained

SECTIONS = ("exchanges", "queues", "bindings")
NODE = "headrace-0@127.0.0.1"
LATER = ("q.quorum.status", "rebalance", "user.queues")
"""Calls of these sections whose requests are not built."""


class _NoClients:
    def play(self, name: str) -> Any:
        pytest.fail(f"no step of clients is played: {name}")


def test_recorded_calls_are_answered_but_for_listed_differences() -> None:
    played = [step for step in steps() if step.section in SECTIONS and step.id not in LATER]
    with BrokerThread(SETTINGS) as broker:
        for vhost in ("gold", "gold/slash", "gold3"):
            make_vhost(broker, vhost, "guest")
        ask = over_http(f"http://127.0.0.1:{port_of(broker)}")
        replay = Replay(ask, _NoClients(), {"node": NODE}, wait_seconds_max=0)
        answers = {line["id"]: line for line in replay.play(played)}
        assert administer(broker, "exchange.list", vhost="gold3"), "nothing is left out"
    found = list(differences(load(), answers, played))
    calls = {step.id for step in played}
    rows = [
        row
        for row in read_explained(MANAGEMENT)
        if row.field != "*" and any(fits(call, row.call) for call in calls)
    ]
    assert unexplained(found, rows) == ([], [])
