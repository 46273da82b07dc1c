"""Listeners of `headrace dev` for protocols other than Kafka's: one of each for every broker."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import field, make_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headrace.config.listeners import LISTENER_PROTOCOLS
from headrace.model.protocol_row import DevListener
from headrace.model.protocols import ROWS
from headrace.terminal.failure import UsageError
from headrace.terminal.output import note

HOST = "127.0.0.1"
PORT_MAX = 65_535
LISTENERS = [row.dev for row in ROWS if row.dev is not None]
"""Each broker's listeners for protocols other than Kafka's."""
if TYPE_CHECKING:
    Ports = object
else:
    Ports = Parameter(name="*")(
        make_dataclass(
            "Ports",
            [
                (each.flag, Annotated[int | None, Parameter(help=each.help)], field(default=None))
                for each in LISTENERS
            ],
            # Without this module's name Cyclopts takes it for a standard class and makes no flags.
            namespace={"__module__": __name__},
            frozen=True,
        )
    )
NO_PORTS = Ports()
"""A port flag per entry of `LISTENERS`, as the protocols' rows define it."""


def other_ports(
    count: int, port: int, asked: Mapping[str, int | None] = MappingProxyType({})
) -> dict[str, list[int]]:
    """Return the brokers' ports by the name of the listener; 0: a free one. Raises UsageError.

    `port`: the first broker's for Kafka's clients. `asked`: by flag, the ports that the user chose;
    None: the protocol's default one and those that follow, if all of them are free.
    """
    return {each.listener: _ports(each, count, port, asked.get(each.flag)) for each in LISTENERS}


def own_settings(
    number: int, port: int, others: Mapping[str, Sequence[int]], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings of broker `number` for its listeners.

    `port` is its port for Kafka's clients, `others` is the result of `other_ports`. `given`:
    settings of all brokers, which replace those that a listener needs.
    """
    listeners = [f"PLAINTEXT://{HOST}:{port}"]
    settings: dict[str, str] = {}
    for each in LISTENERS:
        listeners.append(f"{each.listener}://{HOST}:{others[each.listener][number - 1]}")
        settings |= {key: given.get(key, own) for key, own in each.settings.items()}
    return {**settings, "listeners": ",".join(listeners)}


def _ports(listener: DevListener, count: int, port: int, asked: int | None) -> list[int]:
    if asked is not None:
        # The start fails if one is in use.
        if not 0 <= asked <= PORT_MAX + 1 - count:
            problem = f"must be 1 to {PORT_MAX + 1 - count}, or 0 for free ports"
            raise UsageError(f"--{listener.flag.replace('_', '-')} {asked}: {problem}")
        return _following(asked, count)
    default = _following((port and LISTENER_PROTOCOLS[listener.listener].default_port) or 0, count)
    for number in default:
        try:
            socket.create_server((HOST, number)).close()
        except OSError as problem:
            reason = os.strerror(problem.errno or 0).lower()
            note(
                f"headrace: warning: {HOST}:{number}: {reason}: other ports for {listener.clients}"
            )
            return [0] * count
    return default


def _following(first: int, count: int) -> list[int]:
    return [first and first + number for number in range(count)]
