"""Changes of a vhost's policies, carried out on its model as those of queues and exchanges are."""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.broker.metadata_image import MetadataImage
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.protocols import POLICY_RECORDS
from headrace.queues.model.policies.policy import Policy
from headrace.queues.model.policies.vhost_policy import (
    PolicyId,
    VhostPolicy,
    check_together,
    policy_text,
)
from headrace.queues.model.virtual_host import VirtualHost
from headrace.vhosts.upgrades import upgrades_for


class PolicyChange(NamedTuple):
    """The new value of a policy."""

    id: PolicyId
    policy: Policy | None
    """A checked policy; None: it is cleared."""


def change_policies(model: VirtualHost, changes: Sequence[PolicyChange], now_ms: int) -> None:
    """Set and clear policies of a vhost at the wall time `now_ms`, all of them or none.

    A policy that is set as it is keeps the time of its last change. Clearing an unknown one changes
    nothing. InvalidPolicy: all policies together exceed a bound.
    """
    after = dict(model.policies)
    for policy_id, policy in changes:
        present = after.get(policy_id)
        if policy is None:
            after.pop(policy_id, None)
        elif present is None or present.policy != policy:
            after[policy_id] = VhostPolicy(policy_id, policy, policy_text(policy), now_ms)
    new = [each for each in after.values() if model.policies.get(each.id) is not each]
    if new:
        check_together(model.name, after.values())
    cleared = [each for each in model.policies if each not in after]
    if cleared:
        model.kept.removed(model, model.table.clear_policies(cleared))
    for each in new:
        model.table.set_policy(each)
        model.kept.added(model, each)


def check_readable(image: MetadataImage) -> None:
    """Raise ApiError UNSUPPORTED_VERSION if a broker with queues cannot read policies."""
    before = upgrades_for(image, POLICY_RECORDS)
    if before is not None:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"policies cannot be changed {before}")
