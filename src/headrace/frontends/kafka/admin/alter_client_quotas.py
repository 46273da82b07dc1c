"""AlterClientQuotas (key 49, v0-v1): set and remove quotas of users, clients and addresses.

Quotas take effect at once (KIP-546). `producer_byte_rate`, `consumer_byte_rate` and
`request_percentage` throttle clients, `controller_mutation_rate` clients that change topics
(KIP-599); connections beyond an address's `connection_creation_rate` are closed (KIP-612).

v1 flexible
"""

from headrace.cluster.settings.quota_settings import Alteration, QuotaChange
from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.operations.quotas import alter_quotas


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Alter client quotas; answer with one result per entity, in the order asked."""
    make = maker(context)
    alterations = [
        Alteration(
            [(part.entity_type, part.entity_name) for part in entry.entity],
            [
                QuotaChange(change.key, None if change.remove else float(change.value))
                for change in entry.ops
            ],
        )
        for entry in request.entries
    ]
    outcomes = await alter_quotas(
        operating(context), alterations, validate_only=request.validate_only
    )
    entries = tuple(
        make(
            "EntryData",
            entity=tuple(
                make("EntityData", entity_type=kind, entity_name=name)
                for kind, name in alteration.entity
            ),
            **error_fields(error),
        )
        for alteration, error in zip(alterations, outcomes, strict=True)
    )
    return make(None, entries=entries)
