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


class BrokerAwayError(SourceError):
    """No broker answers, or no leader is elected; the same read may succeed later."""


class RefusedValueError(SourceError):
    """A record's value does not fit the declared columns, and the read ends there."""


class UnknownTopicError(SourceError):
    """The topic to read does not exist."""


class SinkError(HeadraceError):
    """The sink cannot write, commit or abort; the text says why and what to do."""


class SinkAwayError(SinkError):
    """No broker answers the sink, or no leader is elected; the same batch may succeed later."""


class CheckFailedError(HeadraceError):
    """Too few rows of a batch pass a check; nothing of the batch is written."""


class TooManyRefusedError(SinkError):
    """Too large a share of a topic's records is refused, so the batch is not written."""
