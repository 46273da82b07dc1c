"""A client's transport in hand: nobody answers, and time passes where the client sleeps."""

from headrace.client.transport.port import Address, CannotConnect, Link


class HandTransport:
    """Time passes only where the client sleeps; nobody can be connected to."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []

    async def connect(self, address: Address, seconds: float) -> Link:
        """Nobody is there."""
        raise CannotConnect(str(address))

    async def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.slept.append(seconds)
        self.seconds += seconds

    def now(self) -> float:
        """Seconds slept."""
        return self.seconds
