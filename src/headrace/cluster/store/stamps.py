"""Stamps of a broker's log directories, by which older copies are recognised (ADR 64).

They are in a persistent node for each broker, which Kafka does not have and its tools ignore.
"""

import json
from collections.abc import Mapping

from headrace.cluster.store.znodes import NONSENSE, BadPayload
from headrace.model.nouns import BrokerId

_ROOT = "/headrace-directories"


def path_of(broker: BrokerId) -> str:
    """Return the path of the stamps of a broker's log directories."""
    return f"{_ROOT}/{broker}"


def encode(stamps: Mapping[str, str]) -> bytes:
    """Encode the stamps of a broker's log directories, by directory id."""
    return json.dumps({"version": 1, "directories": dict(stamps)}, separators=(",", ":")).encode()


def decode(path: str, value: bytes) -> dict[str, str]:
    """Decode the stamps of a broker's log directories. Raises BadPayload."""
    try:
        found = json.loads(value)["directories"]
        return {str(directory): str(stamp) for directory, stamp in found.items()}
    except NONSENSE as error:
        raise BadPayload(f"{path}: {error!r} in {value[:200]!r}") from error
