"""`StoredSettings`: settings of another protocol in the metadata store, below `/config`."""

from typing import Protocol


class StoredSettings(Protocol):
    """A protocol's settings in the store (`ProtocolRow.stored`)."""

    @property
    def kinds(self) -> frozenset[str]:
        """Names of their nodes below `/config`; changed entities of these kinds are read."""

    async def load(self) -> None:
        """Replace all settings by those of the store."""

    async def read(self, kind: str, quoted: str) -> None:
        """Read one entity's settings from the store, by the name of its node."""
