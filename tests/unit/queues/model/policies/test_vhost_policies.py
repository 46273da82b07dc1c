"""The policies of a vhost: texts that are stored, changes as a whole, bounds of them together."""

import json

import pytest

from headrace.model import regex
from headrace.model.errors import Malformed
from headrace.queues.model.bindings import Removed
from headrace.queues.model.durability import Declared, Model, NothingKept
from headrace.queues.model.policies import vhost_policy as bounds
from headrace.queues.model.policies.policy import AppliesTo, InvalidPolicy, Policy
from headrace.queues.model.policies.vhost_policy import (
    PolicyId,
    VhostPolicy,
    check_together,
    policy_of,
    policy_text,
)
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.refusals import POLICY, RefusalKind
from headrace.vhosts.policies.commands import PolicyChange, change_policies
from tests.support.queues.policies import NOW_MS, vhost_policy


class Noted(NothingKept):
    """Changes of policies as storage is notified of them."""

    def __init__(self) -> None:
        self.changes: list[Declared | Removed] = []

    def added(self, host: Model, declared: Declared) -> None:
        self.changes.append(declared)

    def removed(self, host: Model, removed: Removed) -> None:
        self.changes.append(removed)


class Here:
    """The model of a vhost, and its changes."""

    def __init__(self) -> None:
        self.noted = Noted()
        self.model = VirtualHost("/", lambda: bytes(16), kept=self.noted)

    def change(self, *changes: VhostPolicy | PolicyId, at: int = 0) -> None:
        """Set policies, and clear those that only an id is given of."""
        change_policies(
            self.model,
            [
                PolicyChange(each, None)
                if isinstance(each, PolicyId)
                else PolicyChange(each.id, each.policy)
                for each in changes
            ],
            NOW_MS + at,
        )

    def heard(self) -> list[Declared | Removed]:
        """Return the changes since the last call."""
        heard = self.noted.changes[:]
        self.noted.changes.clear()
        return heard


@pytest.mark.parametrize("applies_to", AppliesTo)
def test_stored_text_has_the_whole_policy(applies_to: AppliesTo) -> None:
    definition = {"max-length": 10**30, "dead-letter-exchange": "gr\u00f6\u00dfe \ud800"}
    policy = Policy("p", "^é", definition, -1.5, applies_to)
    text = policy_text(policy)
    text.encode("ascii")
    assert policy_of("p", text) == policy
    later = json.dumps(json.loads(text) | {"later": 1})
    assert policy_of("p", later) == policy


@pytest.mark.parametrize(
    "change",
    [{"pattern": 1}, {"definition": []}, {"priority": "1"}, {"apply-to": "none"}, None],
    ids=str,
)
def test_text_with_other_fields_is_malformed(change: dict[str, object] | None) -> None:
    fields = vhost_policy().policy.value
    text = "[" * 100_000 if change is None else json.dumps(fields | change)
    with pytest.raises(Malformed, match="policy 'p'"):
        policy_of("p", text)
    for name in fields:
        without = {other: fields[other] for other in fields if other != name}
        with pytest.raises(Malformed):
            policy_of("p", json.dumps(without))


def test_user_and_operator_policies_of_one_name_are_two() -> None:
    here = Here()
    users, operators = vhost_policy(), vhost_policy(operators=True, length=7)
    here.change(users, operators)
    assert here.model.policies == {users.id: users, operators.id: operators}
    assert here.heard() == [users, operators]
    here.change(users.id)
    assert here.model.policies == {operators.id: operators}
    assert here.heard() == [Removed(policies=(users.id,))]


def test_policy_that_is_set_as_it_is_keeps_its_time() -> None:
    here = Here()
    here.change(vhost_policy())
    here.heard()
    here.change(vhost_policy(), at=5)
    assert here.heard() == []
    changed = vhost_policy(length=4, at=9)
    here.change(changed, at=9)
    assert here.heard() == [changed]
    assert here.model.policies == {changed.id: changed}


def test_unknown_policy_is_cleared_without_a_change() -> None:
    here = Here()
    here.change(PolicyId("p"))
    assert here.heard() == []


def test_last_of_several_changes_of_a_policy_counts() -> None:
    here = Here()
    here.change(vhost_policy(), vhost_policy(length=5))
    assert here.heard() == [vhost_policy(length=5)]
    here.change(vhost_policy(length=6), PolicyId("p"))
    assert here.heard() == [Removed(policies=(PolicyId("p"),))]
    assert not here.model.policies


def test_deleted_vhost_clears_its_policies() -> None:
    here = Here()
    here.change(vhost_policy(), vhost_policy(operators=True))
    here.heard()
    here.model.clear()
    assert not here.model.policies
    assert Removed(policies=(PolicyId("p"), PolicyId("p", True))) in here.heard()


# Bounds


def several(count: int, *, operators: bool = False, pattern: str = "^q") -> list[VhostPolicy]:
    return [vhost_policy(f"p{n}", f"{pattern}{n}", operators=operators) for n in range(count)]


@pytest.mark.parametrize("operators", [False, True])
def test_number_of_policies_is_bounded_by_kind(
    operators: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "POLICIES_MAX", 3)
    check_together("v", several(3) + several(3, operators=True))
    kind = "operator policies" if operators else "policies"
    with pytest.raises(InvalidPolicy) as refused:
        check_together("v", several(4, operators=operators))
    assert str(refused.value) == (
        f"Validation failed\n\nvhost 'v' must not have more than 3 {kind}\n"
    )
    assert (refused.value.kind, refused.value.resource) == (
        RefusalKind.PRECONDITION_FAILED,
        POLICY,
    )


def test_patterns_of_both_kinds_are_bounded_in_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    both = several(2, pattern="[ab]{50}") + several(2, pattern="[ab]{50}", operators=True)
    total = sum(regex.program_size(each.policy.pattern) for each in both)
    assert total > 200
    monkeypatch.setattr(bounds, "PROGRAMS_MAX", total)
    check_together("v", both)
    monkeypatch.setattr(bounds, "PROGRAMS_MAX", total - 1)
    with pytest.raises(InvalidPolicy, match=f"vhost 'v' must not exceed {total - 1} instructions"):
        check_together("v", both)


def test_bytes_of_both_kinds_are_bounded_in_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    both = several(2) + several(2, operators=True)
    total = sum(len(each.text) for each in both)
    monkeypatch.setattr(bounds, "DEFINITIONS_BYTES_MAX", total)
    check_together("v", both)
    monkeypatch.setattr(bounds, "DEFINITIONS_BYTES_MAX", total - 1)
    with pytest.raises(InvalidPolicy, match=f"vhost 'v' must not exceed {total - 1} bytes"):
        check_together("v", both)


def test_thousand_policies_of_each_kind_fit() -> None:
    pattern = r"^team7\.(service|queue)[0-9]+\..*"
    check_together("v", several(1000, pattern=pattern) + several(1000, operators=True))


def test_hostile_patterns_are_refused_long_before_a_thousand() -> None:
    hostile = several(1000, pattern="[ab]*a[ab]{200}x")
    check_together("v", hostile[:200])
    with pytest.raises(InvalidPolicy, match="instructions of RE2"):
        check_together("v", hostile[:250])


def test_refused_policies_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Here()
    here.change(vhost_policy())
    here.heard()
    monkeypatch.setattr(bounds, "POLICIES_MAX", 2)
    with pytest.raises(InvalidPolicy):
        here.change(PolicyId("p"), *several(3))
    assert here.heard() == []
    assert list(here.model.policies) == [PolicyId("p")]
    monkeypatch.setattr(bounds, "POLICIES_MAX", 0)
    here.change(PolicyId("p"))
    assert not here.model.policies, "clearing is never refused"
