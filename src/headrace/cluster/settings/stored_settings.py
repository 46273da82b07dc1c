"""Settings that a protocol of its own keeps in the metadata store, below `/config`."""

from typing import Protocol


class StoredSettings(Protocol):
    """A protocol's settings in the store (`ProtocolRow.stored`)."""

    @property
    def kinds(self) -> frozenset[str]:
        """The names of their nodes below `/config`; a change of an entity of these is read."""

    async def load(self) -> None:
        """Take up all that the store holds, and nothing else."""

    async def read(self, kind: str, quoted: str) -> None:
        """Take up what the store holds of one entity, by the name of its node."""
