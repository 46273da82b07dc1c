"""What one served API is."""

from typing import NamedTuple

from headrace.wire.kafka.api import ApiKey


class Api(NamedTuple):
    """One served API: its key and the versions served (inclusive).

    The code that answers is `handle` in the module of `folder` named as the key is, in lower case,
    where `module` names no other.
    """

    key: ApiKey
    folder: str
    """Of `frontends/kafka`: where the module is that answers."""
    min_version: int
    max_version: int
    hot: bool = False
    """Whether its handler is a `handler.HotHandler`."""
    in_turn: bool = False
    """Whether a request waits until all before it on its connection are answered. Cold ones do."""
    module: str = ""
    proof: str = ""
    """The test that shows it, by pytest's id. With the first sentence of its module's docstring
    it makes the API's line in docs/protocol.md (tools/gen_protocol_docs.py)."""
