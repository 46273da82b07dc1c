"""Keys of delegation tokens (KIP-48)."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind

_DAY_MS = 86_400_000


class DelegationTokenKeys(Keys):
    """Whether delegation tokens are enabled, how long they are valid, and how many may exist."""

    delegation_token_secret_key: str | None = key(
        Kind.PASSWORD,
        None,
        "The key of the delegation tokens' HMACs, the same on every broker. Unset: no"
        " delegation tokens. A change of the key invalidates all tokens.",
    )
    delegation_token_master_key: str | None = key(
        Kind.PASSWORD,
        None,
        "The former name of delegation.token.secret.key, used if that is unset.",
    )
    delegation_token_max_lifetime_ms: int = key(
        Kind.LONG,
        7 * _DAY_MS,
        "How long after its creation a delegation token can be renewed.",
        at_least=1,
    )
    delegation_token_expiry_time_ms: int = key(
        Kind.LONG,
        _DAY_MS,
        "How long a delegation token is valid before it must be renewed.",
        at_least=1,
    )
    delegation_token_expiry_check_interval_ms: int = key(
        Kind.LONG,
        3_600_000,
        "How often expired delegation tokens are removed.",
        at_least=1,
    )
    delegation_token_max_count: int = key(
        Kind.INT,
        10_000,
        "The most delegation tokens; a further one is refused with POLICY_VIOLATION.",
        at_least=1,
        ours=True,
    )
    delegation_token_max_count_per_owner: int = key(
        Kind.INT,
        1000,
        "The most delegation tokens of one owner; a further one is refused with POLICY_VIOLATION.",
        at_least=1,
        ours=True,
    )
