"""RabbitMQ's recorded calls about exchanges, queues and bindings, replayed against a broker."""

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.testing import BrokerThread
from tests.outside.amqp.management.compare import differences
from tests.outside.amqp.management.differences import MANAGEMENT, read_explained
from tests.outside.amqp.management.recordings import load
from tests.outside.amqp.management.replay import Replay, over_http
from tests.outside.amqp.management.steps import Step, steps
from tests.support.amqp.management import SETTINGS, administer, make_vhost, port_of
from tests.support.listed_differences import fits, unexplained

SECTIONS = ("exchanges", "queues", "bindings")
NODE = "headrace-0@127.0.0.1"
ACCOUNTS = ("vhosts", "users", "limits")
LATER = (
    "q.quorum.status", "rebalance", "user.queues", "vhost.connections", "vhost.channels",
)  # fmt: skip
"""Calls of these sections whose requests are not built."""


class _NoClients:
    def play(self, name: str) -> Any:
        pytest.fail(f"no step of clients is played: {name}")


def is_played(step: Step, sections: Sequence[str]) -> bool:
    """Whether a step is of these sections; global parameters are played with users."""
    is_parameter = sections is ACCOUNTS and step.id.startswith("gparam")
    is_of = step.section in sections or is_parameter
    return is_of and not step.client and step.id not in LATER


@pytest.mark.parametrize("sections", [SECTIONS, ACCOUNTS], ids=["objects", "accounts"])
def test_recorded_calls_are_answered_but_for_listed_differences(sections: Sequence[str]) -> None:
    played = [step for step in steps() if is_played(step, sections)]
    with BrokerThread(SETTINGS) as broker:
        if sections is SECTIONS:
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
