"""Maintenance of a broker: drained of leadership and of clients, and revived."""

from headrace.client.admin.topics import BROKER_RESOURCE, alter_configs
from headrace.client.client import Client
from headrace.model.nouns import TopicPartition

DRAINED = "broker.drained"
LOOK_SECONDS = 0.2
"""Seconds between two looks at the partitions that a drained broker leads."""


async def drain(client: Client, broker: int, seconds_max: float) -> list[TopicPartition]:
    """Drain a broker, which must run; return the partitions that it still leads.

    Waits until these are only partitions that no other in-sync replica can lead, for
    `seconds_max` at most. Raises ApiError.
    """
    await alter_configs(client, BROKER_RESOURCE, str(broker), set_={DRAINED: "true"})
    waited = 0.0
    while True:
        led, movable = await _led(client, broker)
        if not movable or waited >= seconds_max:
            return led
        await client.transport.sleep(LOOK_SECONDS)
        waited += LOOK_SECONDS


async def revive(client: Client, broker: int) -> None:
    """End the maintenance of a broker. Raises ApiError."""
    await alter_configs(client, BROKER_RESOURCE, str(broker), delete=[DRAINED])


async def _led(client: Client, broker: int) -> tuple[list[TopicPartition], bool]:
    """Return the partitions that a broker leads, and whether another broker could lead one."""
    known = await client.metadata()
    led = [
        (TopicPartition(name, partition.partition), partition)
        for name, topic in sorted(known.topics.items())
        for partition in topic.partitions
        if partition.leader == broker
    ]
    return [each for each, _ in led], any(len(partition.isr) > 1 for _, partition in led)
