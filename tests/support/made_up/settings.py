"""The settings of the protocol."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind


class EchoKeys(Keys):
    """What lines are answered by."""

    echo_greeting = key(Kind.STRING, "you said", "The first words of each echo.")
