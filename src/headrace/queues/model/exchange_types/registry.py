"""The exchange types of this broker, by name."""

from headrace.model.protocols import EXCHANGE_TYPES_1
from headrace.queues.model.exchange_types import consistent_hash, random_one
from headrace.queues.model.exchange_types.amqp import DIRECT, FANOUT, HEADERS, TOPIC
from headrace.queues.model.exchange_types.kinds import type_of
from headrace.queues.model.exchange_types.modulus_hash import ModulusHash
from headrace.queues.model.exchanges import ExchangeType
from headrace.queues.refusals import precondition_failed

RANDOM = ExchangeType(
    "x-random",
    "AMQP random exchange. Like a direct exchange, but randomly chooses who to route to.",
    table=random_one.RandomTable,
    feature=EXCHANGE_TYPES_1,
)
LOCAL_RANDOM = ExchangeType(
    "x-local-random",
    "Picks one random local binding (queue) to route via (to).",
    table=random_one.LocalRandomTable,
    check_binding=random_one.check_local_binding,
    feature=EXCHANGE_TYPES_1,
)
CONSISTENT_HASH = ExchangeType(
    "x-consistent-hash",
    "Consistent Hashing Exchange",
    table=consistent_hash.ConsistentHashTable,
    check_arguments=consistent_hash.check_hash_arguments,
    check_binding=consistent_hash.check_weight,
    feature=EXCHANGE_TYPES_1,
)
MODULUS_HASH = type_of(ModulusHash, EXCHANGE_TYPES_1)
EXCHANGE_TYPES = {
    each.name: each
    for each in (
        DIRECT, FANOUT, HEADERS, TOPIC, RANDOM, LOCAL_RANDOM, MODULUS_HASH, CONSISTENT_HASH,
    )
}  # fmt: skip


def declared_type(name: str) -> ExchangeType:
    """Return the type of a declaration. Raises Refused PRECONDITION_FAILED."""
    found = EXCHANGE_TYPES.get(name)
    if found is None:
        problem = "unknown" if name else "invalid"
        raise precondition_failed(f"{problem} exchange type '{name}'")
    return found
