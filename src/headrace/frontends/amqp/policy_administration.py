"""Operations of administrators and policymakers on the policies of vhosts."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from headrace.frontends.amqp.listing import no_vhost
from headrace.frontends.amqp.replies import reply_to
from headrace.frontends.amqp.views.names import check_loaded
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.queues import OperationRefused
from headrace.operations.virtual_hosts import (
    ClearOperatorPolicy,
    ClearPolicy,
    PolicySet,
    SetOperatorPolicy,
    SetPolicy,
)
from headrace.ports.store import StoreError
from headrace.queues.model.policies.vhost_policy import PolicyId
from headrace.queues.refusals import Refused
from headrace.vhosts.policies.setting import PolicySettings

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.operations.arguments import Arguments
    from headrace.operations.permissions import Caller
    from headrace.operations.registry import Do


class PolicyAdministration:
    """Changes of the policies of all vhosts. On the event loop."""

    def __init__(self, broker: "Broker", queues: "QueueBroker") -> None:
        self._queues = queues
        self._settings = PolicySettings(
            broker, queues.virtual_hosts, queues.declarations, queues.policy_visits
        )
        self.operations: dict[type[Arguments[Any]], Do] = {
            SetPolicy: self._set,
            SetOperatorPolicy: self._set,
            ClearPolicy: self._clear,
            ClearOperatorPolicy: self._clear,
        }

    async def _set(self, caller: "Caller", asked: SetPolicy) -> PolicySet:
        policy = PolicyId(asked.name, isinstance(asked, SetOperatorPolicy))
        created = not self._exists(asked.vhost, policy)
        await _done(self._settings.set(asked.vhost, {policy: asked.value}))
        return PolicySet(created)

    async def _clear(self, caller: "Caller", asked: ClearPolicy) -> None:
        policy = PolicyId(asked.name, isinstance(asked, ClearOperatorPolicy))
        if not self._exists(asked.vhost, policy):
            kind = "operator policy" if policy.operators else "policy"
            text = f"there is no {kind} '{asked.name}' in vhost '{asked.vhost}'"
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, text)
        await _done(self._settings.clear(asked.vhost, policy))

    def _exists(self, vhost: str, policy: PolicyId) -> bool:
        """Return whether a vhost has a policy. ApiError: no vhost, or it is not loaded yet."""
        host = self._queues.virtual_hosts.hosts.get(vhost)
        if host is None:
            raise no_vhost(vhost)
        check_loaded(self._queues, vhost)
        return policy in host.model.policies


async def _done(change: Coroutine[Any, Any, None]) -> None:
    """Await a change. Raises ApiError in place of other errors."""
    try:
        await change
    except Refused as error:
        text = str(error)
        code = reply_to(error).code
        raise OperationRefused(ErrorCode.INVALID_REQUEST, text, code, text) from error
    except StoreError as error:
        text = f"the change is perhaps not stored: try again later ({error})"
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
