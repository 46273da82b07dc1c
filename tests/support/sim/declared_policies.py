"""A story: clients set and clear policies at any broker while brokers, links and the store fail."""

from headrace.queues.model.policies.vhost_policy import PolicyId
from headrace.server.assembly import Server
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.declarations.messages import CommandKind
from headrace.vhosts.policies.commands import PolicyChange
from tests.support.queues.policies import vhost_policy
from tests.support.sim.declared import DeclaringClient, Told, declarations_of, declared_by_many

PATTERNS = ("^a", "^b", "^c")


class PolicyClient(DeclaringClient):
    """A client that sets two policies of its own with each command, or clears one of them."""

    async def _at(self, server: Server, name: str) -> None:
        pattern = self.chance.choice((*PATTERNS, None))
        names = [f"first{name}", f"second{name}"]
        if pattern is None:
            del names[self.chance.randrange(2)]
        keys = [("policy", each, known) for each in names for known in PATTERNS]
        self.known.update(dict.fromkeys(keys))
        changes = (
            PolicyChange(
                PolicyId(each), None if pattern is None else vhost_policy(each, pattern).policy
            )
            for each in names
        )
        command = declarations_of(server).command("/", CommandKind.POLICIES)
        if await self.carried_out(server, command._replace(policies=tuple(changes))):
            self.known.update((key, key[2] == pattern) for key in keys)


async def policies_of_many(cluster: SimCluster) -> Told:
    """Let clients change policies while brokers fail; then compare with what is known. Broken."""
    return await declared_by_many(cluster, PolicyClient)
