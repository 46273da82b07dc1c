"""Migration of users from RabbitMQ's password hash to SCRAM credentials, at their login."""

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.cluster.settings.user_settings import Deletion, Upsertion
from headrace.model.errors import ApiError
from headrace.queues.permissions.definitions import UserDefinition
from headrace.security.sasl.scram import ITERATIONS_MIN, NUMBERS, salted

if TYPE_CHECKING:
    from headrace.cluster.controller_port import UserSettingsPort
    from headrace.model.secret import Secret
    from headrace.ports.clock import Random
    from headrace.vhosts.vhost_settings_port import VhostSettingsPort

log = logging.getLogger(__name__)


class PasswordMigration:
    """The migrations from password hashes to SCRAM under way. On the deciding thread."""

    def __init__(
        self, users: "UserSettingsPort", amqp: "VhostSettingsPort", random: "Random"
    ) -> None:
        self._users = users
        self._amqp = amqp
        self._random = random
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def begin(self, user: str, password: "Secret") -> None:
        """Begin to replace a user's hash by SCRAM credentials, unless under way already."""
        if user not in self._under_way:
            task = asyncio.get_running_loop().create_task(self._adopt(user, password))
            self._under_way[user] = task

    async def _adopt(self, user: str, password: "Secret") -> None:
        try:
            for number, mechanism in NUMBERS.items():
                salt = self._random.uuid() + self._random.uuid()
                # 1 to 2 ms for each mechanism, once for each user: not worth a thread.
                made = salted(mechanism, password, salt, ITERATIONS_MIN)
                wanted = Upsertion(user, number, ITERATIONS_MIN, salt, made)
                outcome = await self._users.alter([], [wanted])
                error = outcome[user]
                if error is not None:
                    raise error
            if await self._amqp.change_user(user, _without_hash) is None:
                await self._give_up(user)
                return
            log.info("user %r: RabbitMQ's password hash is replaced by SCRAM credentials", user)
        except ApiError as error:
            log.error(
                "user %r: RabbitMQ's password hash could not be replaced by SCRAM credentials: %s."
                " The next login retries", user, error,
            )  # fmt: skip
        finally:
            del self._under_way[user]

    async def _give_up(self, user: str) -> None:
        """Delete the credentials of a user who was deleted during the migration."""
        for number in NUMBERS:
            await self._users.alter([Deletion(user, number)], [])

    def stop(self) -> None:
        """Cancel the migrations under way; the hash stays valid for the next login."""
        for task in self._under_way.values():
            task.cancel()


def _without_hash(user: UserDefinition | None) -> UserDefinition | None:
    return None if user is None else user._replace(password_hash="")
