"""The address of a broker as scenarios need it."""

from typing import NamedTuple


class Address(NamedTuple):
    """Ports on the loopback; equal where one listener is name server and broker."""

    name_server: int
    broker: int

    @property
    def names(self) -> str:
        """The name server's address, as clients are configured with it."""
        return f"127.0.0.1:{self.name_server}"
