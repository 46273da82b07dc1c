"""RabbitMQ's recorded calls about exchanges, queues and bindings, replayed against a broker.

Those of users with each tag, too, as far as their requests are built.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace.management.requests.rows import ROWS
from headrace.management.requests.table import FoundRow, RequestTable
from headrace.testing import BrokerThread
from tests.outside.amqp.management.compare import differences
from tests.outside.amqp.management.differences import MANAGEMENT, read_explained
from tests.outside.amqp.management.recordings import load
from tests.outside.amqp.management.replay import Replay, over_http
from tests.outside.amqp.management.steps import ROLES, Step, steps
from tests.support.amqp.management import (
    SETTINGS,
    administer,
    make_user,
    make_vhost,
    port_of,
)
from tests.support.listed_differences import fits, unexplained
from tests.support.queues.policies import policy_value

SECTIONS = ("exchanges", "queues", "bindings", "policies")
NODE = "headrace-0@127.0.0.1"
ACCOUNTS = ("vhosts", "users", "limits")
LATER = (
    "q.quorum.status | rebalance | user.queues | vhost.connections | vhost.channels | param.*"
    " | pol.now*"
)
"""Calls of these sections whose requests are not built, or that need messages of clients."""


TAGS = ((), ("management",), ("policymaker",), ("monitoring",), ("administrator",))
"""Those of the users `ROLES`."""
VHOSTS = ("gold", "gold/slash", "gold3", "gold-form", "gold-hidden", "gold-imp")
"""The virtual hosts that the calls of roles find."""
BEGIN = (
    "/queues", "/exchanges", "/bindings", "/policies", "/operator-policies", "/overview",
    "/extensions", "/whoami", "/auth",
)  # fmt: skip
"""How paths begin whose calls of roles need no other objects."""
TABLE = RequestTable(ROWS)


class _NoClients:
    def play(self, name: str) -> Any:
        pytest.fail(f"no step of clients is played: {name}")


def is_played(step: Step, sections: Sequence[str]) -> bool:
    """Whether a step is of these sections; global parameters are played with users."""
    section = "users" if step.id.startswith("gparam") else step.section
    return section in sections and not step.client and not fits(step.id, LATER)


def replayed(broker: BrokerThread, played: list[Step]) -> dict[str, Any]:
    """Return the answers of a broker."""
    ask = over_http(f"http://127.0.0.1:{port_of(broker)}")
    replay = Replay(ask, _NoClients(), {"node": NODE}, wait_seconds_max=0)
    return {line["id"]: line for line in replay.play(played)}


@pytest.mark.parametrize("sections", [SECTIONS, ACCOUNTS], ids=["objects", "accounts"])
def test_recorded_calls_are_answered_but_for_listed_differences(sections: Sequence[str]) -> None:
    played = [step for step in steps() if is_played(step, sections)]
    with BrokerThread(SETTINGS) as broker:
        for vhost in VHOSTS[:3] if sections is SECTIONS else ():
            make_vhost(broker, vhost, "guest")
        found = list(differences(load(), replayed(broker, played), played))
    calls = {step.id for step in played}
    rows = [
        row
        for row in read_explained(MANAGEMENT)
        if row.field != "*" and any(fits(call, row.call) for call in calls)
    ]
    assert unexplained(found, rows) == ([], [])


def test_recorded_calls_of_each_role_have_the_recorded_answers() -> None:
    def is_built(step: Step) -> bool:
        path = urlsplit(step.path).path.removeprefix("/api")
        return path.startswith(BEGIN) and isinstance(TABLE.find(step.method, path), FoundRow)

    played = [step for step in steps() if step.by_role and is_built(step)]
    with BrokerThread(SETTINGS) as broker:
        for vhost in VHOSTS:
            make_vhost(broker, vhost)
        for role, tags in zip(ROLES, TAGS, strict=True):
            make_user(broker, role, *tags)
            own = dict.fromkeys(("configure", "write", "read"), "^gold-m")
            administer(broker, "permission.set", user=role, vhost="gold", **own)
        for vhost, name in (
            ("gold", "gold-m1"), ("gold", "gold-c"), ("gold-hidden", "h"), ("gold-imp", "q"),
            ("gold/slash", "q"),
        ):  # fmt: skip
            administer(broker, "queue.declare", vhost=vhost, name=name)
        for vhost, kind in product(("gold", "gold-imp"), ("policy", "operator-policy")):
            value = policy_value("^never")
            administer(broker, f"{kind}.set", vhost=vhost, name="p", value=value)
        found = list(differences(load(), replayed(broker, played), played))
    assert len(played) >= 25 * len(ROLES)
    assert found == []
