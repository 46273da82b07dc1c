"""`DirectoryStamps`: stamps by which a start recognises an older copy of a log directory.

    draw a stamp ──► write it to the directories, next to the store's ──► write it to the store
    at a start: the directory lacks the store's stamp ──► it is an older copy

A copy (a backup, an older disk image) is consistent, so its content alone does not show that it is
one. A stamp is drawn at each start and each minute after it. The file keeps the store's stamp until
the store has the new one, so that a broker killed in between does not take its directory for a
copy. See ADR 64.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.cluster.membership.directory_notes import Note
from headrace.cluster.store import stamps
from headrace.cluster.store.reaction import Reaction
from headrace.cluster.store.znodes import BadPayload
from headrace.log.text_files import encode_uuid
from headrace.ports.store import NoNode, Store, StoreError

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

_logger = logging.getLogger(__name__)

RENEWED_EVERY_SECONDS = 60.0
"""Seconds between two stamps; a copy older than this is always recognised."""


class DirectoryStamps:
    """The stamps of this broker's log directories. On the deciding thread."""

    def __init__(
        self, broker: Broker, store: Store, write: Callable[[], Awaitable[Iterable[str]]]
    ) -> None:
        """Create the stamps; none is known before `read`.

        `write` writes them to the directories and returns the directories' ids.
        """
        self._broker = broker
        self._store = store
        self._path = stamps.path_of(broker.broker_id)
        self._write = write
        self._known: dict[str, str] = {}
        """The stamp in the store, by directory id."""
        self._next: str | None = None
        """The stamp that the directories have and the store lacks; None: the store has it."""
        self._renewing = Reaction(
            self._renew,
            "log.dirs: the stamps of directories could not be renewed, retrying within a minute",
        )
        self._timer: Timer | None = None

    async def read(self) -> None:
        """Read the stamps in the store, before the directories are judged. Raises StoreError."""
        try:
            node = await self._store.get(self._path)
            self._known = stamps.decode(self._path, node.value)
        except NoNode:
            return
        except BadPayload as error:
            _logger.warning("%s; older copies of log directories are not recognised", error)

    def is_older(self, note: Note | None, *, holds_logs: bool) -> bool:
        """Return whether a directory with this note is an older copy of the store's latest one."""
        if note is None:
            return holds_logs and bool(self._known)  # a copy, or from before this file existed
        known = self._known.get(note.directory_id)
        return note.older or (known is not None and known not in note.stamps)

    def of(self, directory_id: str) -> tuple[str, ...]:
        """Return the stamps to write into a directory."""
        known = self._known.get(directory_id)
        return tuple(stamp for stamp in (self._next, known) if stamp is not None)

    def start(self) -> None:
        """Renew the stamps now and each minute. Call it once the broker is registered."""
        self._timer = self._broker.clock.call_later(RENEWED_EVERY_SECONDS, self.start)
        self._renewing.ask()

    def stop(self) -> None:
        """Stop renewing the stamps."""
        self._renewing.cancel()
        if self._timer is not None:
            self._timer.cancel()

    async def _renew(self) -> None:
        stamp = self._next = self._next or encode_uuid(self._broker.random.uuid())
        written = await self._write()
        known = {**self._known, **dict.fromkeys(written, stamp)}
        try:
            await self._put(stamps.encode(known))
        except StoreError as error:  # the directories say both, so nothing is lost by waiting
            _logger.debug("%s: %s", self._path, error)
            return
        self._known, self._next = known, None

    async def _put(self, value: bytes) -> None:
        try:
            await self._store.set(self._path, value)
        except NoNode:
            await self._store.create(self._path, value, parents=True)
