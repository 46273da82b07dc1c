"""Client quotas of users, client ids and IP addresses (KIP-546)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.client.calls.call import ColdCall, Maker, check
from headrace.client.client import Client
from headrace.wire.kafka.api import ApiKey

ENTITY_TYPES = ("user", "client-id", "ip")

Entity = Mapping[str, str | None]
"""A quota entity: name by entity type; None as a name is the default of that type."""


class Quota(NamedTuple):
    """The quotas set for one entity, by quota name."""

    entity: dict[str, str | None]
    limits: dict[str, float]


async def describe_quotas(client: Client) -> list[Quota]:
    """Return all client quotas that are set in the cluster."""

    def parse(response: Any) -> list[Quota]:  # noqa: ANN401 - kio's entity
        check(response.error_code, response.error_message)
        return [
            Quota(
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: float(value.value) for value in entry.values},
            )
            for entry in response.entries or ()
        ]

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        return maker.request(components=(), strict=False)

    return await client.ask_any(ColdCall(ApiKey.DESCRIBE_CLIENT_QUOTAS, build, parse))


async def alter_quotas(
    client: Client, entity: Entity, limits: Mapping[str, float], delete: Sequence[str] = ()
) -> None:
    """Set `limits` and remove the quotas in `delete` of one entity; its other quotas stay."""

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        parts = tuple(
            maker.part("EntityData", entity_type=kind, entity_name=name)
            for kind, name in entity.items()
        )
        changes = [
            maker.part("OpData", key=key, value=value, remove=False)
            for key, value in limits.items()
        ] + [maker.part("OpData", key=key, value=0.0, remove=True) for key in delete]
        entry = maker.part("EntryData", entity=parts, ops=tuple(changes))
        return maker.request(entries=(entry,), validate_only=False)

    def parse(response: Any) -> None:  # noqa: ANN401 - kio's entity
        for entry in response.entries:
            check(entry.error_code, entry.error_message)

    await client.ask_controller(ColdCall(ApiKey.ALTER_CLIENT_QUOTAS, build, parse))
