"""Brokers that live, and whose connections end as if their processes were killed."""

import asyncio

from headrace.testing.sim.faults.ground import Ground, Kinds
from headrace.testing.sim.faults.links import machine

FALSE_RESETS = "false resets"
"""The name of the fault and of its counter."""
_SECONDS = (0.02, 0.2, 2.0, 8.0)
"""Choices for the longest time during which new connections are refused, in seconds."""


class FalseResets:
    """Faults that make other brokers take a broker for dead."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def kinds(self) -> Kinds:
        """Return the fault "false resets" by its name."""
        return {FALSE_RESETS: self._reset}

    async def _reset(self) -> None:
        """Reset all connections to a broker, and refuse new ones for a while.

        The broker reaches the others, the store and its clients.
        """
        ground, chance = self._ground, self._ground.random
        special = [number for number in ground.brokers if ground.leads(number)]
        decider = ground.decider()
        special += [] if decider is None else [decider]
        number = chance.choice(special if special and chance.random() < 0.8 else ground.brokers)
        others = [other for other in ground.brokers if other != number]
        deceived = others if chance.random() < 0.7 else [chance.choice(others)]
        ground.counts[FALSE_RESETS] += 1
        network = ground.cluster.network
        for other in deceived:
            network.refuse(machine(other), machine(number))
            network.break_links(machine(other), machine(number))
            if chance.random() < 0.3:
                network.break_links(machine(number), machine(other))
        await asyncio.sleep(chance.choice(_SECONDS) * chance.random())
        for other in deceived:
            network.admit(machine(other), machine(number))
