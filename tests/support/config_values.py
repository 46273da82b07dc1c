"""A broker's settings by key, as `tls_settings` and its like take them."""

from collections.abc import Mapping

from headrace.config.definitions import BROKER
from headrace.config.value_types import Value


def defaults(changed: Mapping[str, Value]) -> dict[str, Value]:
    """All by default but these."""
    return {**{name: row.default for name, row in BROKER.items()}, **changed}
