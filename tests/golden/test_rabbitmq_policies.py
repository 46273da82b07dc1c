"""Policies as RabbitMQ 4.3.6 answered: refusals, the policy of each object, joined definitions."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.queues.model.arguments import queue_type_of
from headrace.queues.model.policies.effective import AppliedPolicies
from headrace.queues.model.policies.matching import PolicyTable
from headrace.queues.model.policies.policy import (
    InvalidPolicy,
    Policy,
    checked_policy,
    with_defaults,
)

RECORDED = Path(__file__).parent / "rabbitmq-4.3.6/policies.jsonl"
REQUEST_CHECKED = {"pol.put.nopattern", "pol.put.nodefinition", "pol.put.novhost"}
"""Refused before the policy is looked at: the request's fields, and its vhost."""
OWN_REASON = "pattern should be regular expression but is invalid: "
"""Texts that begin so have the reason of the library that compiles patterns."""

Call = dict[str, Any]
CALLS: list[Call] = [json.loads(line) for line in RECORDED.read_text().splitlines()]


class Model:
    """Policies of a vhost, as the calls set and delete them."""

    def __init__(self) -> None:
        self.policies: dict[str, Policy] = {}
        self.operator_policies: dict[str, Policy] = {}

    def put(self, kind: str, name: str, request: Call) -> tuple[int, str]:
        """Set a policy; return the status and the reason."""
        operators = kind == "operator-policies"
        try:
            policy = checked_policy(name, with_defaults(request), operators=operators)
        except InvalidPolicy as error:
            return 400, str(error)
        policies = self.of_kind(kind)
        status = 204 if name in policies else 201
        policies[name] = policy
        return status, ""

    def of_kind(self, kind: str) -> dict[str, Policy]:
        return self.operator_policies if kind == "operator-policies" else self.policies

    def table(self) -> PolicyTable:
        return PolicyTable(self.policies.values(), self.operator_policies.values())


class Replayed(NamedTuple):
    """A call with the answers of RabbitMQ and of the model."""

    call: str
    recorded: object
    ours: object


def shown(policy: Policy | None) -> str | None:
    return None if policy is None else policy.name


def of_object(table: PolicyTable, kind: str, name: str, answer: Call) -> AppliedPolicies:
    if kind == "exchanges":
        return table.of_exchange(name)
    return table.of_queue(name, queue_type_of(answer.get("arguments", {})))


def replay_get(model: Model, kind: str, rest: str, call: Call) -> Replayed:
    answer: Any = call.get("answer")
    name = rest.partition("/")[2]
    if kind in {"queues", "exchanges"}:
        applied = of_object(model.table(), kind, name, answer)
        ours = {
            "policy": shown(applied.policy),
            "operator_policy": shown(applied.operator_policy),
            "effective_policy_definition": applied.definition,
        }
        asked = {key: ours[key] for key in ours if key in answer}
        return Replayed(call["id"], {key: answer[key] for key in asked}, asked)
    policies = model.of_kind(kind)
    if name:
        found = policies.get(name)
        listed = None if found is None else {**found.value, "name": name, "vhost": "gold"}
        return Replayed(call["id"], answer if call["status"] == 200 else None, listed)
    every = [{**each.value, "name": each.name, "vhost": "gold"} for each in policies.values()]
    return Replayed(call["id"], by_name(answer), by_name(every))


def by_name(listed: list[Call]) -> list[Call]:
    return sorted(listed, key=lambda each: str(each["name"]))


def replay(model: Model, call: Call) -> Replayed | None:
    """Make a call of the model; None: it is about no policy."""
    path, _, _ = call["path"].partition("?")
    kind, _, rest = path.partition("/")
    name = rest.partition("/")[2]
    if call["method"] == "GET":
        return replay_get(model, kind, rest, call)
    if kind not in {"policies", "operator-policies"} or call["id"] in REQUEST_CHECKED:
        return None
    if call["method"] == "DELETE":
        found = model.of_kind(kind).pop(name, None)
        return Replayed(call["id"], call["status"], 404 if found is None else 204)
    status, reason = model.put(kind, name, call["request"])
    recorded = call["answer"]["reason"] if "answer" in call else ""
    if OWN_REASON in recorded and OWN_REASON in reason:
        recorded = reason = OWN_REASON
    return Replayed(call["id"], (call["status"], recorded), (status, reason))


def replayed() -> list[Replayed]:
    model = Model()
    return [each for call in CALLS if (each := replay(model, call)) is not None]


@pytest.mark.parametrize("each", replayed(), ids=lambda each: each.call)
def test_policies_answer_as_rabbitmq(each: Replayed) -> None:
    assert each.ours == each.recorded


def test_recorded_calls_have_each_verdict() -> None:
    calls = {each.call for each in replayed()}
    assert len(calls) == 39
    assert {"pol.put.ha", "op.put.forbidden", "op.after.b", "pol.stream.after"} <= calls
