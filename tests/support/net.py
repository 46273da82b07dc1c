"""What tests of connections are made with."""

from headrace.config.keys.network import NetworkKeys
from headrace.config.value_types import Value
from headrace.net.limits import Limits


def limits_with(**settings: Value) -> Limits:
    """Make the limits of a configuration that has `settings`, by attribute, and defaults."""
    return Limits(NetworkKeys(**settings))
