"""What goes wrong in the source, each in one line for the person who wrote the query."""

from headrace.model.errors import HeadraceError


class SourceError(HeadraceError):
    """The source cannot do what was asked."""


class OptionError(SourceError):
    """An option is missing, unknown or has a value that cannot be used: says which and why."""


class DataLossError(SourceError):
    """Records that the query was to read are gone; `failOnDataLoss=false` goes on without them."""

    def __init__(self, loss: str) -> None:
        super().__init__(f"{loss}; set failOnDataLoss to false to go on with what is there")


class SinkError(HeadraceError):
    """The sink cannot write, decide or end what it was asked to: says why and what to do."""
