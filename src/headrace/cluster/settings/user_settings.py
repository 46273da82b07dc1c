"""`UserSettings`: SCRAM credentials in the store, among a user's settings: `/config/users/NAME`.

As in Kafka with ZooKeeper, each mechanism is a setting of that name. Changes are checked with the
error texts of Kafka 4.3 (ScramControlManager).
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.broker import Broker
from headrace.broker.quotas import DEFAULT, Entity
from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.settings.quota_settings import path_of
from headrace.cluster.store.catalog import Catalog
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import StoreError
from headrace.posix.awaiting import carried_on

if TYPE_CHECKING:
    from headrace.security.sasl.sasl import Mechanism
    from headrace.security.sasl.scram import Credential

_logger = logging.getLogger(__name__)

_SCRAM = "SCRAM-"


class Deletion(NamedTuple):
    """A credential to delete. `mechanism`: its number in the protocol."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A credential to create or replace. `mechanism`: its number in the protocol."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"Upsertion(user={self.user!r}, mechanism={self.mechanism}, ***)"


class UserSettings:
    """SCRAM credentials of users: changed in the store, applied to the broker."""

    def __init__(self, broker: Broker, catalog: Catalog, change: asyncio.Lock) -> None:
        """Create the credential settings. `change`: lock held during a change."""
        self._broker = broker
        self._catalog = catalog
        self._change = change

    def take_all(self, found: Mapping[Entity, Mapping[str, str]]) -> None:
        """Replace all credentials by those of the store."""
        users = self._broker.users
        wanted = {entity.user: config for entity, config in found.items() if _is_user(entity)}
        for name in [name for name in users.names() if name not in wanted]:
            users.put(name, {})
        for entity, config in found.items():
            self.take(entity, config)

    def take(self, entity: Entity, config: Mapping[str, str]) -> None:
        """Apply the credentials among the settings of `entity`, if that is one user."""
        if entity.user and _is_user(entity):
            self._broker.users.put(entity.user, _credentials(entity.user, config))

    async def alter(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> dict[str, ApiError | None]:
        """Change credentials, each user independently, effective at once.

        Return the outcome by user.
        """
        return await carried_on(self._alter(deletions, upsertions))

    async def _alter(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> dict[str, ApiError | None]:
        outcome: dict[str, ApiError | None] = {}
        asked: dict[str, list[Deletion | Upsertion]] = {}
        every: list[Deletion | Upsertion] = [*deletions, *upsertions]
        for alteration in every:
            asked.setdefault(alteration.user, []).append(alteration)
        async with self._change:
            for user, alterations in asked.items():
                try:
                    if len(alterations) > 1:
                        raise ApiError(
                            ErrorCode.DUPLICATE_RESOURCE,
                            "A user credential cannot be altered twice in the same request",
                        )
                    await self._alter_one(alterations[0])
                except ApiError as error:
                    outcome[user] = error
                else:
                    outcome[user] = None
        return outcome

    async def _alter_one(self, alteration: Deletion | Upsertion) -> None:
        mechanism = _checked_mechanism(alteration)
        made = None if isinstance(alteration, Deletion) else _credential(mechanism, alteration)
        entity = Entity(user=alteration.user)

        def changed(config: dict[str, str]) -> dict[str, str]:
            # A user's node may hold quotas and other credentials: what is not asked for stays.
            if made is not None:
                config[mechanism] = made
            elif config.pop(mechanism, None) is None:
                raise ApiError(
                    ErrorCode.RESOURCE_NOT_FOUND,
                    "Attempt to delete a user credential that does not exist",
                )
            return config

        try:
            config = await self._catalog.configs.change(path_of(entity), changed)
        except StoreError as error:
            raise store_failed(error) from error
        self.take(entity, config or {})
        verb = "deleted" if made is None else "set"
        _logger.info("the %s credential of user %r was %s", mechanism, alteration.user, verb)


def _is_user(entity: Entity) -> bool:
    """Return whether `entity` is one user: not the default user, nor a user's client."""
    return entity.user not in (None, DEFAULT) and entity.client is None and entity.ip is None


def _checked_mechanism(alteration: Deletion | Upsertion) -> "Mechanism":
    from headrace.security.sasl.scram import ITERATIONS_MAX, ITERATIONS_MIN, NUMBERS

    if not alteration.user:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = NUMBERS.get(alteration.mechanism)
    if mechanism is None:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(alteration, Upsertion):
        if alteration.iterations < ITERATIONS_MIN:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if alteration.iterations > ITERATIONS_MAX:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if not alteration.salt or not alteration.salted_password:
            raise ApiError(
                ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt and salted password must not be empty"
            )
    return mechanism


def _credential(mechanism: "Mechanism", upsertion: Upsertion) -> str:
    from headrace.security.sasl.scram import credential_of, encode_credential

    _, _, iterations, salt, salted_password = upsertion
    return encode_credential(credential_of(mechanism, salted_password, salt, iterations))


def _credentials(user: str, config: Mapping[str, str]) -> "dict[Mechanism, Credential]":
    """Return a user's SCRAM credentials by mechanism, from the settings; log invalid ones."""
    if not any(name.startswith(_SCRAM) for name in config):
        return {}
    from headrace.security.sasl.scram import HASHES, decode_credential

    found: dict[Mechanism, Credential] = {}
    for mechanism in HASHES:
        text = config.get(mechanism)
        if text is None:
            continue
        try:
            found[mechanism] = decode_credential(mechanism, text)
        except ValueError as error:
            _logger.error("user %r: %s in the store %s; set it anew", user, mechanism, error)
    return found
