"""The policies by which the objects of a vhost have their settings.

They are those of the log of declarations, as far as it is committed: a policy that is set by a
command whose append fails must drop no message.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.queues.model.policies.effective import (
    MESSAGE_TTL,
    AppliedPolicies,
    effective_alternate,
    effective_arguments,
    effective_settings,
)
from headrace.queues.model.policies.matching import PolicyTable
from headrace.queues.model.policies.vhost_policy import PolicyId, VhostPolicy

if TYPE_CHECKING:
    from headrace.queue_stores.queue_settings import QueueSettings
    from headrace.queues.model.argument_checks import Arguments
    from headrace.queues.model.declarations import DeclaredQueue
    from headrace.queues.model.exchanges import Exchange


class PresentPolicies:
    """The policies of a vhost, each with the time of its last change. Immutable."""

    def __init__(self, policies: Mapping[PolicyId, VhostPolicy]) -> None:
        self.policies = dict(policies)
        self._table = PolicyTable(
            [each.policy for each in policies.values() if not each.id.operators],
            [each.policy for each in policies.values() if each.id.operators],
        )

    def of_queue(self, queue: "DeclaredQueue") -> AppliedPolicies:
        """Return the policies of a queue."""
        return self._table.of_queue(queue.name, queue.settings.queue_type)

    def of_exchange(self, exchange: "Exchange") -> AppliedPolicies:
        """Return the policies of an exchange."""
        return self._table.of_exchange(exchange.name)

    def settings_of(self, queue: "DeclaredQueue") -> "QueueSettings":
        """Return the settings of a queue: its arguments joined with its policies."""
        queue_type, applied = queue.settings.queue_type, self.of_queue(queue)
        settings = effective_settings(queue.arguments, queue_type, applied)
        since_ms = self._ttl_since_ms(applied)
        if not since_ms:
            return settings
        before = effective_settings(queue.arguments, queue_type, AppliedPolicies())
        return settings._replace(ttl_since_ms=since_ms, ttl_before_ms=before.ttl_ms)

    def arguments_of(self, queue: "DeclaredQueue") -> "Arguments":
        """Return the arguments of a queue joined with its policies."""
        definition = self.of_queue(queue).definition
        return effective_arguments(queue.arguments, queue.settings.queue_type, definition)

    def alternate_of(self, exchange: "Exchange") -> str | None:
        """Return the name of an exchange's alternate exchange; None: it has none."""
        return effective_alternate(exchange.arguments, self.of_exchange(exchange))

    def _ttl_since_ms(self, applied: AppliedPolicies) -> int:
        """Return the time of the last change of a policy that sets a TTL; 0: none does."""
        found = ((applied.policy, False), (applied.operator_policy, True))
        return max(
            (
                self.policies[PolicyId(policy.name, operators)].changed_ms
                for policy, operators in found
                if policy is not None and MESSAGE_TTL in policy.definition
            ),
            default=0,
        )
