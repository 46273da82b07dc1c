"""The option `--argument KEY=VALUE` for AMQP arguments: `--argument x-max-length=1000`."""

import json
from typing import Annotated

from cyclopts import Parameter

from headrace.terminal.failure import UsageError

Arguments = Annotated[
    tuple[str, ...],
    Parameter(
        name="--argument",
        help="An argument as KEY=VALUE; may be given again. What is JSON is that: 1000 is a number"
        ' (a long), true a boolean, "1000" in its quotes a string; all else is a string.',
    ),
]


def arguments_of(texts: tuple[str, ...]) -> dict[str, object]:
    """Return `KEY=VALUE` texts as AMQP arguments: a value that is JSON is decoded.

    Raises UsageError.
    """
    arguments: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"--argument {text}: must be KEY=VALUE")
        if key in arguments:
            raise UsageError(f"--argument {key}: is given twice")
        arguments[key] = _value(value)
    return arguments


def _value(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> object:
    # NaN and Infinity are accepted by Python's parser but are not JSON.
    raise ValueError(constant)
