"""Settings of queues and exchanges: their arguments joined with their policies.

At most one policy and one operator policy apply to an object. Their definitions are joined key by
key, and the result with the arguments, by the joins of `keys`. Keys that only a later version knows
are shown and have no effect.
"""

from collections.abc import Mapping
from typing import NamedTuple, cast

from headrace.queue_stores.queue_settings import QueueSettings, QueueType
from headrace.queues.field_values import INTEGER_KINDS, kind_of
from headrace.queues.model import exchange_topic
from headrace.queues.model.argument_checks import MS_MAX, Arguments
from headrace.queues.model.arguments import OF_OWN_TOPIC, settings_of
from headrace.queues.model.exchanges import ALTERNATE_EXCHANGE
from headrace.queues.model.policies.keys import KEYS, PolicyKey, is_integer
from headrace.queues.model.policies.policy import Policy

Definition = Mapping[str, object]

_INTEGER_MAX = (1 << 63) - 1
"""Policies' integers have no bound in RabbitMQ; larger ones are applied as this one."""
MESSAGE_TTL = "message-ttl"
_MS_KEYS = (MESSAGE_TTL, "expires", "consumer-timeout")


class AppliedPolicies(NamedTuple):
    """The policies of an object; None: none matches it."""

    policy: Policy | None = None
    operator_policy: Policy | None = None

    @property
    def definition(self) -> dict[str, object]:
        """The join of both definitions: `effective_policy_definition`."""
        joined: dict[str, object] = dict(self.policy.definition) if self.policy else {}
        if self.operator_policy is not None:
            for name, value in self.operator_policy.definition.items():
                join = KEYS[name].operators if name in joined and name in KEYS else None
                joined[name] = value if join is None else join(joined[name], value)
        return joined


def effective_arguments(
    arguments: Arguments, queue_type: QueueType, definition: Definition
) -> Arguments:
    """Return a queue's arguments joined with an effective definition.

    A definition changes nothing of the topic that a stream reads.
    """
    if not definition:
        return arguments
    joined = dict(arguments)
    reads_topic = exchange_topic.stored_in(arguments) is not None
    for name, value in definition.items():
        key = KEYS.get(name)
        if key is None:
            continue
        argument = key.argument or f"x-{name}"
        if not (reads_topic and argument in OF_OWN_TOPIC):
            joined[argument] = _joined(
                key, queue_type, _bounded(name, value), arguments.get(argument)
            )
    return joined


def effective_settings(
    arguments: Arguments, queue_type: QueueType, applied: AppliedPolicies
) -> QueueSettings:
    """Return the settings of a queue with checked arguments and policies."""
    return settings_of(effective_arguments(arguments, queue_type, applied.definition), queue_type)


def effective_alternate(arguments: Arguments, applied: AppliedPolicies) -> str | None:
    """Return the name of an exchange's alternate exchange; None: it has none."""
    alternate = arguments.get(ALTERNATE_EXCHANGE, applied.definition.get(ALTERNATE_EXCHANGE))
    return alternate if isinstance(alternate, str) else None


def _joined(key: PolicyKey, queue_type: QueueType, value: object, argument: object) -> object:
    if argument is None or (is_integer(value) and kind_of(argument) not in INTEGER_KINDS):
        # The values of some arguments are not checked; a number comes before all else in Erlang.
        return value
    return key.joins.get(queue_type, key.join)(value, argument)


def _bounded(name: str, value: object) -> object:
    if not is_integer(value):
        return value
    return min(cast("int", value), MS_MAX if name in _MS_KEYS else _INTEGER_MAX)
