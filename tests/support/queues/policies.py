"""Policies as tests set them."""

from collections.abc import Mapping

from headrace.queues.engine.changed_settings import change_settings
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.model.policies.policy import Policy
from headrace.queues.model.policies.vhost_policy import PolicyId, VhostPolicy, policy_text

NOW_MS = 1_700_000_000_000


def policy_value(pattern: str = "^q", **fields: object) -> dict[str, object]:
    """A policy without its name, as RabbitMQ's `value`."""
    return {"pattern": pattern, "definition": {"max-length": 3}, "priority": 0} | fields


def vhost_policy(
    name: str = "p",
    pattern: str = "^q",
    *,
    operators: bool = False,
    length: int = 3,
    at: int = 0,
    definition: Mapping[str, object] | None = None,
) -> VhostPolicy:
    """A policy that a vhost has; `definition` None: a length."""
    policy = Policy(name, pattern, definition or {"max-length": length})
    return VhostPolicy(PolicyId(name, operators), policy, policy_text(policy), NOW_MS + at)


def change_queue(host: QueueHost, name: str, now_ms: int = NOW_MS, **changed: object) -> None:
    """Change settings of a declared queue, as a policy does."""
    queue = host.model.queues[name]
    settings = queue.settings._replace(**changed)  # type: ignore[arg-type]
    change_settings(host, queue, settings, now_ms)
