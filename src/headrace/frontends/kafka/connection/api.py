"""The description of a served API."""

from typing import NamedTuple

from headrace.wire.kafka.api import ApiKey


class Api(NamedTuple):
    """A served API: its key and its versions (inclusive).

    Its handler is `handle` in `folder`, in the module named as the key is in lower case, or
    `module`.
    """

    key: ApiKey
    folder: str
    """Folder of `frontends/kafka` that has the handler's module."""
    min_version: int
    max_version: int
    hot: bool = False
    """Whether its handler is a `handler.HotHandler`."""
    in_turn: bool = False
    """Whether a request waits until all earlier ones on its connection are answered.

    Cold APIs always wait.
    """
    module: str = ""
    proof: str = ""
    """The test that covers it, by pytest's id.

    With the first sentence of the module's docstring it makes the API's line in docs/protocol.md
    (tools/gen_protocol_docs.py).
    """
