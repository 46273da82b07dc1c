"""Policies as RabbitMQ 4.3.6 answered: refusals, the policy of each object, joined definitions."""

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
from tests.outside.amqp.management.recordings import load
from tests.outside.amqp.management.steps import Step, steps

REQUEST_CHECKED = {"pol.put.nopattern", "pol.put.nodefinition", "pol.put.novhost"}
"""Refused before the policy is looked at: the request's fields, and its vhost."""
OWN_REASON = "pattern should be regular expression but is invalid: "
"""Texts that begin so have the reason of the library that compiles patterns."""

Fields = dict[str, Any]


class Model:
    """Policies of a vhost, as the calls set and delete them."""

    def __init__(self) -> None:
        self.policies: dict[str, Policy] = {}
        self.operator_policies: dict[str, Policy] = {}

    def put(self, kind: str, name: str, request: Fields) -> tuple[int, str]:
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
    """A request with the answers of RabbitMQ and of the model."""

    step: str
    recorded: object
    ours: object


def shown(policy: Policy | None) -> str | None:
    return None if policy is None else policy.name


def of_object(table: PolicyTable, kind: str, name: str, answer: Fields) -> AppliedPolicies:
    if kind == "exchanges":
        return table.of_exchange(name)
    return table.of_queue(name, queue_type_of(answer.get("arguments", {})))


def replay_get(model: Model, step: Step, kind: str, name: str, recorded: Fields) -> Replayed:
    answer = recorded["body"]
    if kind in {"queues", "exchanges"}:
        applied = of_object(model.table(), kind, name, answer)
        ours = {
            "policy": shown(applied.policy),
            "operator_policy": shown(applied.operator_policy),
            "effective_policy_definition": applied.definition,
        }
        asked = {key: ours[key] for key in ours if key in answer}
        return Replayed(step.id, {key: answer[key] for key in asked}, asked)
    listed = [
        {**policy.value, "name": policy.name, "vhost": "gold"}
        for policy in model.of_kind(kind).values()
    ]
    if not name:
        return Replayed(step.id, by_name(answer), by_name(listed))
    found = [each for each in listed if each["name"] == name]
    return Replayed(step.id, [answer] if recorded["status"] == 200 else [], found)


def by_name(listed: list[Fields]) -> list[Fields]:
    return sorted(listed, key=lambda each: str(each["name"]))


def replay(model: Model, step: Step, recorded: Fields) -> Replayed | None:
    """Make a request of the model; None: it is about no policy."""
    path, _, _ = step.path.removeprefix("/api/").partition("?")
    kind, _, rest = path.partition("/")
    name = rest.partition("/")[2]
    if step.method == "GET":
        return replay_get(model, step, kind, name, recorded)
    if kind not in {"policies", "operator-policies"} or step.id in REQUEST_CHECKED:
        return None
    if step.method == "DELETE":
        found = model.of_kind(kind).pop(name, None)
        return Replayed(step.id, recorded["status"], 404 if found is None else 204)
    status, ours = model.put(kind, name, step.body)
    theirs = recorded["body"]["reason"] if recorded["body"] else ""
    if OWN_REASON in theirs and OWN_REASON in ours:
        ours = theirs = OWN_REASON
    return Replayed(step.id, (recorded["status"], theirs), (status, ours))


def replayed() -> list[Replayed]:
    model, answers = Model(), load()
    found = (
        replay(model, step, answers[step.id])
        for step in steps()
        if step.id.startswith(("pol.", "op.")) and step.method and step.recorded
    )
    return [each for each in found if each is not None]


@pytest.mark.parametrize("each", replayed(), ids=lambda each: each.step)
def test_policies_answer_as_rabbitmq(each: Replayed) -> None:
    assert each.ours == each.recorded


def test_recorded_calls_have_each_verdict() -> None:
    calls = {each.step for each in replayed()}
    assert len(calls) == 39
    assert {"pol.put.ha", "op.put.forbidden", "op.after.b", "pol.stream.after"} <= calls
