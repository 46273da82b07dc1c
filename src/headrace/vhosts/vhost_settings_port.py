"""`VhostSettingsPort`: vhosts, users and global parameters in the metadata store.

Implemented by `cluster.settings.vhost_settings.VhostSettings`, as a protocol's rooms do not use the
store themselves.
"""

from collections.abc import Callable
from typing import Protocol

from headrace.cluster.settings.stored_settings import StoredSettings
from headrace.queues.permissions.definitions import Definitions, UserDefinition, VhostDefinition


class VhostSettingsPort(StoredSettings, Protocol):
    """Vhosts and their users that this broker knows, and changes of them in the store."""

    @property
    def definitions(self) -> Definitions:
        """All vhosts and users."""

    async def change_vhost(
        self, name: str, change: Callable[[VhostDefinition | None], VhostDefinition | None]
    ) -> VhostDefinition | None:
        """Write the result of `change` as the vhost's definition; None: the vhost is deleted.

        Raises ApiError.
        """

    async def change_user(
        self, name: str, change: Callable[[UserDefinition | None], UserDefinition | None]
    ) -> UserDefinition | None:
        """Write the result of `change` as the user's definition; None: the definition is deleted.

        Raises ApiError.
        """

    async def change_parameter(
        self, name: str, change: Callable[[str | None], str | None]
    ) -> str | None:
        """Write the result of `change` as a global parameter, a JSON text; None: it is deleted.

        Raises ApiError.
        """
