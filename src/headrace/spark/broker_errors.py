"""Errors of the client as errors of the source and the sink: passing ones, and others."""

from headrace.client.calls.call import RETRIABLE
from headrace.client.transport.port import ClientError, Refused, Untrusted
from headrace.model.errors import ApiError
from headrace.spark.errors import BrokerAwayError, SinkAwayError, SinkError, SourceError


def is_away(error: Exception) -> bool:
    """Return whether the brokers are away: they do not answer, or have no leader yet."""
    if isinstance(error, ApiError):
        return error.code in RETRIABLE
    return isinstance(error, ClientError) and not isinstance(error, (Refused, Untrusted))


def source_error(error: Exception) -> SourceError:
    """Return the source's error for an error of the client."""
    return (BrokerAwayError if is_away(error) else SourceError)(str(error))


def sink_error(error: Exception, text: str | None = None) -> SinkError:
    """Return the sink's error for an error of the client; `text`: its text, else the client's."""
    return (SinkAwayError if is_away(error) else SinkError)(str(error) if text is None else text)
