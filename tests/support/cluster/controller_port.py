"""A controller of which only what its port names can be asked."""

import asyncio
import inspect
from typing import Any

from headrace.cluster.controller_port import (
    AclSettingsPort,
    ControllerPort,
    EntitySettingsPort,
    QuotaSettingsPort,
    ReplicasPort,
    SettingsPort,
    UserSettingsPort,
)

_PORTS: dict[str, type] = {
    "settings": SettingsPort,
    "replicas": ReplicasPort,
    "groups": EntitySettingsPort,
    "client_metrics": EntitySettingsPort,
    "quotas": QuotaSettingsPort,
    "acls": AclSettingsPort,
    "users": UserSettingsPort,
}


class OnlyThePort:
    """What `port` names of `whole`, and nothing else; what is awaited comes turns later.

    `asked` gets the name of everything that was asked.
    """

    def __init__(self, whole: object, port: type = ControllerPort) -> None:
        self.asked: list[str] = []
        self._whole = whole
        self._port = port

    def __getattr__(self, name: str) -> Any:
        if name not in vars(self._port):
            raise AssertionError(f"{self._port.__name__} does not name {name}")
        found = getattr(self._whole, name)
        if name in _PORTS:
            part = OnlyThePort(found, _PORTS[name])
            part.asked = self.asked
            return part
        self.asked.append(name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def late(*args: Any, **named: Any) -> Any:
            for _ in range(3):
                await asyncio.sleep(0)
            return await found(*args, **named)

        return late
