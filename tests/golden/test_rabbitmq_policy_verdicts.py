"""Policies as RabbitMQ 4.3.6 judged drawn ones, by `tests.outside.amqp.management.policy_verdicts`.

Whether each is accepted, what each object has of them, and what queues do with their settings.
"""

from typing import Any

import pytest

from headrace.queue_stores.queue_settings import (
    DELIVERIES_COUNTED_MAX,
    Overflow,
    QueueSettings,
    QueueType,
)
from headrace.queues.model.arguments import queue_type_of
from headrace.queues.model.policies.effective import AppliedPolicies, effective_settings
from headrace.queues.model.policies.matching import PolicyTable
from headrace.queues.model.policies.policy import (
    InvalidPolicy,
    Policy,
    checked_policy,
    with_defaults,
)
from tests.outside.amqp.management.policy_verdicts import PUBLISHED, VERDICTS
from tests.outside.amqp.management.recordings import load_lines

Line = dict[str, Any]
LINES: list[Line] = load_lines(VERDICTS)


def of_kind(kind: str) -> list[Line]:
    return [line for line in LINES if line["kind"] == kind]


def reason(value: Line, *, operators: bool) -> str:
    try:
        checked_policy("p", with_defaults(value), operators=operators)
    except InvalidPolicy as error:
        return str(error)
    return ""


def without_breaks(text: str) -> str:
    """Return a text without white space: RabbitMQ breaks long lines within terms."""
    return "".join(text.split())


def test_values_are_accepted_and_refused_as_by_rabbitmq() -> None:
    lines = of_kind("value")
    for line in lines:
        ours = reason(line["value"], operators=line["operators"])
        assert without_breaks(ours) == without_breaks(line["reason"]), line
        assert line["accepted"] is not bool(ours), line
    assert len(lines) == 400
    assert sum(line["accepted"] for line in lines) == 170


def policies(values: Line, *, operators: bool) -> list[Policy]:
    return [
        checked_policy(name, with_defaults(value), operators=operators)
        for name, value in values.items()
    ]


def name_of(policy: Policy | None) -> str | None:
    return None if policy is None else policy.name


@pytest.mark.parametrize("line", of_kind("objects"))
def test_objects_have_the_policies_that_rabbitmq_gives_them(line: Line) -> None:
    table = PolicyTable(
        policies(line["policies"], operators=False),
        policies(line["operator_policies"], operators=True),
    )
    for recorded in line["objects"]:
        name = recorded["name"]
        if "type" not in recorded:
            assert name_of(table.of_exchange(name).policy) == recorded["policy"], recorded
            continue
        applied = table.of_queue(name, QueueType(recorded["type"]))
        assert {
            "name": name,
            "type": recorded["type"],
            "policy": name_of(applied.policy),
            "operator_policy": name_of(applied.operator_policy),
            "effective_policy_definition": applied.definition,
        } == recorded


def settings_of(line: Line) -> QueueSettings:
    applied = AppliedPolicies(
        Policy("p", "", line["policy"]), Policy("o", "", line["operator_policy"])
    )
    queue_type = queue_type_of(line["arguments"])
    return effective_settings(line["arguments"], queue_type, applied)


@pytest.mark.parametrize("line", of_kind("queue"))
def test_queues_refuse_and_drop_as_in_rabbitmq(line: Line) -> None:
    settings = settings_of(line)
    length, is_quorum = settings.length_max, settings.queue_type is QueueType.QUORUM
    refuses = settings.overflow is Overflow.REJECT_PUBLISH and length is not None
    assert line["refused"] is refuses
    # RabbitMQ's quorum queues refuse once they are above their length.
    expected = PUBLISHED if length is None else length + (refuses and is_quorum)
    assert line["messages"] == expected
    if is_quorum:
        limit = line["delivery_limit"]
        unlimited = {-1: DELIVERIES_COUNTED_MAX, "unlimited": DELIVERIES_COUNTED_MAX}
        assert settings.delivery_limit == unlimited.get(limit, limit)
