"""Admin requests at inconvenient times: elections and record deletions."""

import asyncio

from headrace.model.errors import ApiError
from headrace.testing.sim.faults.ground import Ground, Kinds
from headrace.testing.sim.faults.links import LinkFaults


class Requests:
    """Requests that move leaders and log start offsets."""

    def __init__(self, ground: Ground, links: LinkFaults) -> None:
        self._ground = ground
        self._links = links

    def kinds(self) -> Kinds:
        """Return the requests by name."""
        return {"elections asked for": self._hand_over, "deletions": self._delete_records}

    async def _hand_over(self) -> None:
        """Request an election of the preferred replicas."""
        self._ground.counts["elections asked for"] += 1
        await self._ground.cluster.elect(self._ground.watch.topic)

    async def _delete_records(self) -> None:
        """Delete the committed records through their leader, sometimes while a replica lags far
        behind."""
        ground = self._ground
        lagging = ground.random.choice(ground.brokers) if ground.random.random() < 0.6 else 0
        if lagging:
            self._links.isolate(lagging)
            await asyncio.sleep(ground.random.uniform(0.5, 3) * ground.lag_seconds)
        self._delete_once()
        if lagging:
            await asyncio.sleep(0.5)
            self._links.reach(lagging)

    def _delete_once(self) -> None:
        ground = self._ground
        for number in ground.free():
            server = ground.cluster.brokers.get(number)
            if server is None:
                continue
            for (topic, _), partition in sorted(server.broker.partitions.items()):
                if topic == ground.watch.topic and partition.role.knows_end:
                    ground.counts["deletions"] += 1
                    try:
                        partition.delete_records(-1)
                    except ApiError:
                        continue
                    return
