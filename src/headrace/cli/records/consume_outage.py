"""Waiting of `headrace consume` and `produce --follow` for unreachable brokers, noted once."""

from headrace.client.client import Client
from headrace.client.consumer.damage import OF_DAMAGE
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, HeadraceError
from headrace.terminal.output import note

LEAVE_SECONDS_MAX = 5.0
"""Longest wait, in seconds, for a group's coordinator at the end of the command."""


class Outage:
    """Whether a client's brokers are unreachable, and the notes about it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.under_way = False
        self._damage_told = False

    def await_brokers(self, seconds: float | None) -> None:
        """Wait `seconds` for unreachable brokers from now on; None: as long as for other errors."""
        self.client.patient = True
        self.client.outage_seconds = seconds
        self.client.on_retry = self._tell_retry

    def brokers_answer(self) -> None:
        """Print a note if the brokers were unreachable before."""
        if self.under_way:
            self.under_way = False
            note("the brokers answer again")

    def hurry(self) -> None:
        """Limit waits from now on to what the end of a command may take."""
        self.client.outage_seconds = LEAVE_SECONDS_MAX if self.under_way else None

    def _tell_retry(self, error: HeadraceError) -> None:
        """Print a note on the first error of an outage, and on the first damaged read."""
        if isinstance(error, ApiError) and error.code in OF_DAMAGE and not self._damage_told:
            self._damage_told = True
            words = error.message or error.code.name
            note(f"{words}; retrying for {self.client.retry_seconds:g} s")
        if isinstance(error, ClientError) and not self.under_way:
            self.under_way = True
            seconds = self.client.outage_seconds
            if seconds is None:
                seconds = self.client.retry_seconds
            how_long = "until it answers" if seconds == float("inf") else f"for {seconds:g} s"
            note(f"{error}; retrying {how_long}")
