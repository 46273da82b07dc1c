"""`PolicySettings`: changes of policies that are asked for at this broker.

A single broker carries them out itself; in a cluster the vhost's coordinator does (ADR 85).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back
from headrace.queues.model.policies.policy import checked_policy
from headrace.queues.model.policies.vhost_policy import PolicyId
from headrace.vhosts.declarations.messages import CommandKind
from headrace.vhosts.policies.commands import PolicyChange, change_policies, check_readable

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.queues.engine.virtual_hosts import VirtualHosts
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations
    from headrace.vhosts.policies.visits import PolicyVisits


class PolicySettings:
    """The changes of policies of all vhosts, asked for at one broker. On the event loop."""

    def __init__(
        self,
        broker: "Broker",
        virtual_hosts: "VirtualHosts",
        declarations: "ClusterDeclarations | None",
        visits: "PolicyVisits",
    ) -> None:
        """`visits` give queues and exchanges the settings of policies.

        `declarations`: those of the cluster; None: the broker is alone.
        """
        self._broker = broker
        self._virtual_hosts = virtual_hosts
        self._declarations = declarations
        self._visits = visits

    async def set(self, vhost: str, values: Mapping[PolicyId, object]) -> None:
        """Set policies, all or none, as RabbitMQ's `value` of each parameter describes them.

        Return once they are stored and all connected brokers have them. InvalidPolicy, or another
        Refused from the coordinator: a policy is invalid, or all together exceed a bound.
        Errors as of `clear`.
        """
        changes = [
            PolicyChange(each, checked_policy(each.name, value, operators=each.operators))
            for each, value in values.items()
        ]
        await self._change(vhost, changes)

    async def clear(self, vhost: str, policy: PolicyId) -> None:
        """Clear a policy; an unknown one is ignored. Return as `set` does.

        ApiError: RESOURCE_NOT_FOUND without the vhost, UNSUPPORTED_VERSION while brokers cannot
        read policies; others, and StoreError, if it is not stored, or perhaps later.
        """
        await self._change(vhost, [PolicyChange(policy, None)])

    async def _change(self, vhost: str, changes: Sequence[PolicyChange]) -> None:
        host = self._virtual_hosts.hosts.get(vhost)
        if host is None:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no vhost '{vhost}'")
        if self._declarations is None:
            change_policies(host.model, changes, self._broker.clock.wall_ms())
            try:
                await called_back(host.model.kept.when_kept)
            finally:  # a failed append is repeated
                self._visits.begin(host, host.model.policies)
            await called_back(self._visits.when_visited)
            return
        check_readable(self._broker.image)
        command = self._declarations.command(vhost, CommandKind.POLICIES)
        wanted = command._replace(policies=tuple(changes))
        await called_back(partial(self._declarations.ask, wanted))
        await called_back(self._visits.when_visited)
