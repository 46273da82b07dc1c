"""The settings of the protocol."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind


class EchoKeys(Keys):
    """The settings of answers."""

    echo_greeting = key(Kind.STRING, "you said", "The first words of each echo.")
