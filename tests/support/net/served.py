"""What the broker's table of APIs says of a front end's module."""

from types import ModuleType

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.registry import APIS

_BY_NAME = {api.key.name.lower(): api for api in APIS}


def served(module: ModuleType) -> Api:
    """The API that `module` answers."""
    return _BY_NAME[module.__name__.rpartition(".")[2]]
