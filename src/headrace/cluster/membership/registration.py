"""`OwnRegistration`: this broker's registration in the store, and the session that owns it.

A broker that is killed and starts at once finds its former registration, as the store keeps a
session until its timeout. A file in its log directories names the session, so the broker knows the
registration as its own and deletes it; the directories are locked, so no other process uses them.
The file also names its path and the machine's boot: in a copy of the directory they differ, and the
session is ignored.

    headrace-session:   version: 0
                        session: <id>
                        boot_id: <boot of the machine>
                        path: <absolute path of the directory>
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import cast

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import Endpoint
from headrace.cluster.membership.lease import NO_SESSION
from headrace.cluster.store import znodes
from headrace.cluster.store.stored_doubts import Doubts
from headrace.cluster.store.znodes import Registration
from headrace.config.listeners import spoken_rows
from headrace.log import file_names
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.text_files import read_file
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.ports.store import (
    BadVersion,
    Create,
    Node,
    NodeExists,
    NoNode,
    Set,
    Store,
    StoreError,
)
from headrace.posix.awaiting import called_back

_logger = logging.getLogger(__name__)
REGISTRATION_BYTES_MAX = 1_000_000
"""Bytes of a registration at most: ZooKeeper closes the connection over requests beyond 1 MiB (its
jute.maxbuffer)."""
_VERSIONS = {"min_version": 1, "max_version": 1}
"""The supported versions of each feature of a registration."""
_PREFIX = "version: 0\nsession: "


class OwnRegistration:
    """This broker's registration in the metadata store: endpoints, rack and doubts."""

    def __init__(self, broker: Broker, store: Store) -> None:
        """Create the registration without registering the broker."""
        self._broker = broker
        self._store = store
        self._path = znodes.broker_path(broker.broker_id)
        self._registration = Registration(())
        self.session = NO_SESSION
        """Session that owned the registration when its broker epoch was last returned."""
        self.before: Callable[[], Awaitable[None]] | None = None
        """Awaited before each registration. May raise StoreError."""

    async def announce(
        self, endpoints: Sequence[Endpoint], doubts: Doubts = MappingProxyType({})
    ) -> int:
        """Register this broker and return its broker epoch. ConfigError: its id is taken.

        A registration of a former session of this broker is deleted first.
        """
        config, now_ms = self._broker.config, self._broker.clock.wall_ms()
        rows = spoken_rows(config.listeners) if self._store.shared else ()
        names = [name for row in rows if row.feature for name in (row.feature, *row.later_features)]
        self._registration = Registration(
            tuple(endpoints), config.broker_rack, now_ms, dict.fromkeys(names, _VERSIONS), doubts
        )
        if self._store.shared:
            await self._end_former(await self._former())
        return await self.announce_again()

    async def doubt(self, doubts: Doubts) -> None:
        """Write `doubts` to the registration in place of the former ones.

        ApiError: the store failed.
        """
        registration = self._registration._replace(doubts=doubts)
        try:
            await self._store.set(self._path, znodes.encode_registration(registration))
        except StoreError as error:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        self._registration = registration

    async def announce_again(self) -> int:
        """Register with the same content in the present session; return the broker epoch.

        Raises ConfigError.
        """
        if self._store.shared:
            await self._keep(self._store.session)
        if self.before is not None:
            await self.before()
        value = znodes.encode_registration(self._registration)
        if len(value) > REGISTRATION_BYTES_MAX:
            raise ConfigError(
                f"broker.id={self._broker.broker_id}: {len(self._registration.doubts)} of its"
                f" replicas may lack committed records, which takes {len(value)} bytes to say, and"
                f" ZooKeeper takes {REGISTRATION_BYTES_MAX}: bring the log directories back that"
                " are gone, or give some of its partitions to other brokers first (headrace"
                " cluster reassign)"
            )
        try:
            # Two operations, as in Kafka: the result of Set has the node's creation id, the broker
            # epoch.
            _, node = await self._store.multi(
                [Create(self._path, b"", ephemeral=True), Set(self._path, value, 0)]
            )
        except NodeExists:
            raise ConfigError(
                f"broker.id={self._broker.broker_id}: a broker with this id is running"
                f"{await self._where()}; stop it, or set another id"
            ) from None
        return self._epoch_of(cast("Node", node))

    async def epoch(self) -> int | None:
        """Return the broker epoch; None: this session owns no registration of this broker."""
        node = await self._get(self._path)
        if node is None or node.owner != self._store.session:
            return None
        return self._epoch_of(node)

    def _epoch_of(self, node: Node) -> int:
        """Return the broker epoch of the own registration, and note the session that owns it."""
        self.session = node.owner
        return node.created

    async def _where(self) -> str:
        """Return text with address and session of the broker registered under our id, or ""."""
        node = await self._get(self._path)
        if node is None:
            return ""
        broker_id = self._broker.broker_id
        found = znodes.decode_registration(broker_id, self._path, node.value, node.created)
        at = "".join(f" at {endpoint.host}:{endpoint.port}" for endpoint in found.endpoints[:1])
        return f"{at}, session {node.owner:#x}"

    async def _get(self, path: str) -> Node | None:
        """Return a node of the store, or None if it does not exist."""
        try:
            return await self._store.get(path)
        except NoNode:
            return None

    # --- the session before this one -----------------------------------------------------------

    async def _end_former(self, sessions: set[int]) -> None:
        """Delete the registration and the controller node if one of `sessions` owns them."""
        for path in (self._path, znodes.CONTROLLER):
            node = await self._get(path)
            if node is not None and node.owner in sessions:
                with suppress(NoNode, BadVersion):
                    await self._store.delete(path, node.version)

    async def _former(self) -> set[int]:
        """Return the session ids that the log directories name; none in new directories."""
        found: set[int] = set()
        for directory in self._broker.directories:
            if not directory.fenced:
                found |= await called_back(partial(directory.disk.run, partial(_read, directory)))
        return found

    async def _keep(self, session: int) -> None:
        """Write the session to a log directory, before anything is created in it.

        The first directory that can be written suffices.
        """
        for directory in self._broker.directories:
            if directory.fenced:
                continue
            try:
                await called_back(partial(directory.disk.run, partial(_write, directory, session)))
            except OSError as error:
                _logger.warning(
                    "%s: cannot write the session id: %s. Unless another log directory has it, a"
                    " start after a kill is refused until the session expires. Free space on the"
                    " disk, or replace it",
                    _path_in(directory), error,
                )  # fmt: skip
            else:
                return


def _path_in(directory: LogDirectory) -> str:
    return f"{directory.path}/{file_names.SESSION}"


def _place(directory: LogDirectory) -> str:
    """Return the lines that differ in a copy of the directory: boot id and absolute path.

    Blocking.
    """
    disk = directory.disk
    return f"boot_id: {disk.boot_id()}\npath: {disk.absolute(directory.path)}\n"


def _write(directory: LogDirectory, session: int) -> None:
    """Write the session to `headrace-session` of a directory. Blocking. Raises OSError."""
    content = f"{_PREFIX}{session}\n{_place(directory)}"
    directory.disk.replace(_path_in(directory), content.encode())


def _read(directory: LogDirectory) -> set[int]:
    """Return the session that a directory's file names, as a set.

    Empty: none, or the file is a copy.

    Blocking. ConfigError: the file is malformed.
    """
    content = read_file(directory.disk, _path_in(directory))
    if content is None:
        return set()
    try:
        session, _, place = content.decode().removeprefix(_PREFIX).partition("\n")
        found = {int(session)}
    except ValueError:
        raise ConfigError(
            f"{_path_in(directory)}: malformed, it has no session id. Remove the file and start the"
            " broker again"
        ) from None
    return found if place == _place(directory) else set()
