"""Keys of delegation tokens (KIP-48)."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind

_DAY_MS = 86_400_000


class DelegationTokenKeys(Keys):
    """Whether there are delegation tokens, how long they hold and how many there may be."""

    delegation_token_secret_key: str | None = key(
        Kind.PASSWORD,
        None,
        "What delegation tokens are made with, the same on every broker; unset: there are none."
        " With another one all tokens are void.",
    )
    delegation_token_master_key: str | None = key(
        Kind.PASSWORD,
        None,
        "The former name of delegation.token.secret.key, taken where that is unset.",
    )
    delegation_token_max_lifetime_ms: int = key(
        Kind.LONG,
        7 * _DAY_MS,
        "How long a delegation token can be renewed, from its making on.",
        at_least=1,
    )
    delegation_token_expiry_time_ms: int = key(
        Kind.LONG,
        _DAY_MS,
        "How long a delegation token holds before it must be renewed.",
        at_least=1,
    )
    delegation_token_expiry_check_interval_ms: int = key(
        Kind.LONG,
        3_600_000,
        "How often delegation tokens are removed that hold no more.",
        at_least=1,
    )
    delegation_token_max_count: int = key(
        Kind.INT,
        10_000,
        "How many delegation tokens there may be; one more is refused with POLICY_VIOLATION.",
        at_least=1,
        ours=True,
    )
    delegation_token_max_count_per_owner: int = key(
        Kind.INT,
        1000,
        "How many delegation tokens one owner may have; one more is refused with POLICY_VIOLATION.",
        at_least=1,
        ours=True,
    )
