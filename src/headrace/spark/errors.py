"""Errors of the Spark source and sink, each one line for the author of the query."""

from headrace.model.errors import HeadraceError


class SourceError(HeadraceError):
    """The source cannot do what the query asks for."""


class OptionError(SourceError):
    """An option is missing, unknown or has an invalid value; the text names the option and why."""


class DataLossError(SourceError):
    """Records that the query was to read no longer exist, and `failOnDataLoss` is true."""

    def __init__(self, loss: str) -> None:
        super().__init__(f"{loss}; set failOnDataLoss to false to go on with what is there")


class SinkError(HeadraceError):
    """The sink cannot write, commit or abort; the text says why and what to do."""


class TooManyRefusedError(SinkError):
    """Too large a share of a topic's records is refused, so the batch is not written."""
