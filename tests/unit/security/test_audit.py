"""The audit log: each refusal once, and no peer can fill the log."""

import logging

import pytest

from headrace.security import audit
from headrace.security.audit import (
    CHANGES_OF_ONE,
    LINES_OF_ALL,
    LINES_OF_ONE,
    PERIOD_SECONDS,
    Audit,
)
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.security.identity import Identity, Principal
from headrace.testing.clock import SimClock

ALICE = Identity("10.0.0.1", "SECURE", Principal("User", "alice"))


def topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger=audit.__name__)
    return caplog


def test_a_refusal_says_who_what_and_from_where_and_once(lines: pytest.LogCaptureFixture) -> None:
    clock = SimClock()
    log = Audit(clock)
    for _ in range(5):
        log.refused(ALICE, Operation.WRITE, topic("t"))
    assert lines.messages == [
        "refused principal=User:alice host=10.0.0.1 listener=SECURE operation=WRITE"
        " resource=TOPIC:t"
    ]
    clock.advance(PERIOD_SECONDS)
    assert lines.messages[1:] == ["4 further refusals within 60 s are not logged individually"]
    log.refused(ALICE, Operation.WRITE, topic("t"))
    assert len(lines.messages) == 3, "another period"
    clock.advance(PERIOD_SECONDS)
    assert len(lines.messages) == 3, "nothing was left out"


def test_one_peer_that_floods_leaves_room_for_others(lines: pytest.LogCaptureFixture) -> None:
    clock = SimClock()
    log = Audit(clock)
    for number in range(1000):
        log.refused(ALICE, Operation.READ, topic(f"t{number}"))
    assert len(lines.messages) == LINES_OF_ONE
    log.refused(ALICE._replace(host="10.0.0.2"), Operation.READ, topic("t"))
    assert "host=10.0.0.2" in lines.messages[-1]
    for number in range(1000):
        log.refused(ALICE._replace(host=f"10.1.0.{number}"), Operation.READ, topic("t"))
    assert len(lines.messages) == LINES_OF_ALL
    assert len(log._lines) <= LINES_OF_ALL
    clock.advance(PERIOD_SECONDS)
    assert "1901 further refusals" in lines.messages[-1]
    assert not log._told
    assert not log._lines


def test_a_change_says_who_did_it_and_what(lines: pytest.LogCaptureFixture) -> None:
    log = Audit(SimClock())
    log.changed(ALICE, by="CREATE_ACLS", acl="ALLOW User:bob READ", result="NONE", done=True)
    assert lines.messages == [
        "changed principal=User:alice host=10.0.0.1 listener=SECURE by=CREATE_ACLS"
        ' acl="ALLOW User:bob READ" result=NONE'
    ]


def test_who_changes_very_much_has_so_many_lines_and_the_rest_is_counted(
    lines: pytest.LogCaptureFixture,
) -> None:
    clock = SimClock()
    log = Audit(clock)
    for number in range(CHANGES_OF_ONE + 5):
        log.changed(ALICE, by="CREATE_TOPICS", topic=f"t{number}", result="NONE", done=True)
    assert len(lines.messages) == CHANGES_OF_ONE
    bob = ALICE._replace(principal=Principal("User", "bob"))
    log.changed(bob, by="DELETE_TOPICS", topic="t", id=None, result="NONE", done=False)
    assert lines.messages[-1] == (
        "not changed principal=User:bob host=10.0.0.1 listener=SECURE by=DELETE_TOPICS topic=t"
        " result=NONE"
    )
    clock.advance(PERIOD_SECONDS)
    assert lines.messages[-1] == "5 further changes within 60 s are not logged individually"
    assert not log._changes
