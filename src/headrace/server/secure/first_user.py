"""The broker of `headrace serve --secure`: it creates its first user before it accepts clients."""

import asyncio
import contextlib
import datetime
import hmac
import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.cluster.settings.user_settings import Upsertion
from headrace.config.broker import BrokerConfig
from headrace.model.errors import ConfigError, HeadraceError
from headrace.ports.world import World
from headrace.posix.awaiting import called_back
from headrace.security.sasl.scram import ITERATIONS_MIN, NUMBERS, salted
from headrace.security.sasl.scram import make_credential as credential_of
from headrace.server.assembly import Server
from headrace.server.real_world import RealWorld
from headrace.server.secure.client_files import MECHANISM
from headrace.server.secure.preparation import PASSWORD, USER, USER_MADE, Secured

if TYPE_CHECKING:
    from headrace.security.sasl.scram import Credential

log = logging.getLogger(__name__)

LOOK_SECONDS = 86_400.0
"""Seconds between two checks of the certificates' ends: a broker may run for years."""
_SALT_BYTES = 24
_NUMBER = next(number for number, mechanism in NUMBERS.items() if mechanism is MECHANISM)


class SecureServer(Server):
    """A broker with the certificates and the first user of `--secure`. Used on the event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        world: World,
        fatal: Callable[[Exception], None],
        secured: Secured,
    ) -> None:
        """Create the broker; `secured`: the files of `--secure` next to the log directory."""
        super().__init__(config, world, fatal)
        self._secured = secured
        self._looking: asyncio.Task[None] | None = None

    async def _join(self) -> None:
        """Join like any broker, then create the first user."""
        await super()._join()
        await self._make_user()

    async def start(self) -> None:
        """Start like any broker, then renew certificates as they are about to expire."""
        await super().start()
        self._looking = asyncio.get_running_loop().create_task(self._look_after_certificates())

    async def stop(self) -> None:
        """Stop the certificate checks, then stop cleanly like any broker."""
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking
        await super().stop()

    async def _make_user(self) -> None:
        """Create the first user, unless an earlier start did.

        ConfigError: a user of that name exists with another password, or the password file is
        missing.
        """
        secured = self._secured
        there = self.broker.users.of(USER).get(MECHANISM)
        if secured.user_made:
            self._remark(there)
            return
        password = secured.password
        if password is None:  # created with the directory, so the file was removed since
            raise ConfigError(
                f"{secured.directory.path_of(PASSWORD)}: removed during the start: start again"
            )
        if there is None:
            salt = secrets.token_bytes(_SALT_BYTES)
            made = salted(MECHANISM, password, salt, ITERATIONS_MIN)
            upsertion = Upsertion(USER, _NUMBER, ITERATIONS_MIN, salt, made)
            error = (await self.controller.settings.users.alter([], [upsertion]))[USER]
            if error is not None:
                raise ConfigError(f"user {USER} could not be made: {error}")
        elif not self._fits(there):
            raise ConfigError(
                f"there is a user {USER} already, with another password: write that into"
                f" {secured.directory.path_of(PASSWORD)}, or start without --secure and delete him:"
                f" headrace user delete {USER} -b unix:{self.config.log_dirs[0]}"
            )
        secured.note_user()

    def _remark(self, there: "Credential | None") -> None:
        """Log a warning if the client files no longer work.

        The user was deleted, or has another password than the file.
        """
        secured, socket = self._secured, f"-b unix:{self.config.log_dirs[0]}"
        if there is None:
            log.warning(
                "user %s was deleted, so the client files in %s no longer authenticate. To create"
                " the user again, remove %s there and restart the broker",
                USER, secured.directory.path, USER_MADE,
            )  # fmt: skip
        elif secured.password is None or not self._fits(there):
            log.warning(
                "the password of user %s differs from that in %s, so the client files do not"
                " authenticate. Write the user's password there and restart the broker, or set"
                " another password: headrace user alter %s %s",
                USER, secured.directory.path_of(PASSWORD), USER, socket,
            )  # fmt: skip

    def _fits(self, there: "Credential") -> bool:
        """Return whether the password file's password matches a stored SCRAM credential."""
        password = self._secured.password
        if password is None:
            return False
        ours = credential_of(MECHANISM, password, there.salt, there.iterations)
        return hmac.compare_digest(ours.stored_key, there.stored_key)

    async def _look_after_certificates(self) -> None:
        """Renew certificates that are about to expire, once every `LOOK_SECONDS`."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = datetime.datetime.now(datetime.UTC)
            try:
                # The listener reads a changed file again by itself (`ssl.reload.interval.ms`).
                await called_back(partial(self.disk.run, partial(self._secured.look, now)))
            except (HeadraceError, OSError) as error:
                log.error("certificates could not be renewed: %s", error)


def secure_server(
    config: BrokerConfig, secured: Secured
) -> Callable[[Callable[[Exception], None]], SecureServer]:
    """Return the factory of a SecureServer; it is called on the loop with the `fatal` callback."""
    return lambda fatal: SecureServer(config, RealWorld(config), fatal, secured)
