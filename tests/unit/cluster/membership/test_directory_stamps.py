"""Stamps in log directories and in the store: an older copy has none that the store has."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.membership.directory_notes import FLUSHED, Note
from headrace.cluster.membership.directory_stamps import DirectoryStamps
from headrace.cluster.store import stamps
from headrace.cluster.store.znodes import BadPayload
from headrace.model.nouns import BrokerId
from headrace.ports.store import Node, SessionLost
from headrace.testing.disk import SimDisk
from headrace.testing.sim.ensemble import Ensemble, EnsembleSession
from tests.support.processes.broker import Room, play, room

PATH = stamps.path_of(BrokerId(0))
ID = "the-directory"


def tell(place: Path, story: Callable[[Room, EnsembleSession], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with room(place, SimDisk()) as here:
            await story(here, Ensemble(1).session())

    play(run())


def note(*known: str, older: bool = False) -> Note:
    return Note(ID, (ID,), "boot", FLUSHED, known, older)


class Directory:
    """A log directory: the stamps in its file, which a start after a crash finds."""

    def __init__(self, here: Room, store: EnsembleSession) -> None:
        self.known: tuple[str, ...] = ()
        self.stamps = DirectoryStamps(here.broker, store, self._write)

    async def _write(self) -> list[str]:
        self.known = self.stamps.of(ID)
        return [ID]


async def renewal(directory: Directory) -> None:
    """Draw a stamp and wait until the store has taken or refused it, however long that takes."""
    directory.stamps.start()
    running = directory.stamps._renewing._running
    assert running is not None
    await running
    directory.stamps.stop()


async def renewed(store: EnsembleSession, directory: Directory) -> str:
    """Have the store know the next stamp; returns it."""
    await renewal(directory)
    assert stamps.decode(PATH, (await store.get(PATH)).value) == {ID: directory.known[0]}
    return directory.known[0]


def test_a_copy_has_none_of_the_stores_stamps(tmp_path: Path) -> None:
    async def story(here: Room, store: EnsembleSession) -> None:
        directory = Directory(here, store)
        first = await renewed(store, directory)
        copy = directory.known
        second = await renewed(store, directory)
        assert first != second
        later = DirectoryStamps(here.broker, store, directory._write)
        await later.read()
        assert not later.is_older(note(*directory.known), holds_logs=True)
        assert later.is_older(note(*copy), holds_logs=True)
        assert later.is_older(note(), holds_logs=True), "a version before has written the file"
        assert later.is_older(note(second, older=True), holds_logs=True), "that is not settled"
        other = Note("another", ("another",), "boot", FLUSHED)
        assert not later.is_older(other, holds_logs=True), "the store has not heard of it yet"
        assert later.is_older(other._replace(older=True), holds_logs=True)
        assert later.is_older(None, holds_logs=True)
        assert not later.is_older(None, holds_logs=False), "a new directory"

    tell(tmp_path, story)


def test_a_store_that_knows_nothing_calls_no_directory_older(tmp_path: Path) -> None:
    async def story(here: Room, store: EnsembleSession) -> None:
        directory = Directory(here, store)
        await directory.stamps.read()
        for found in (None, note(), note("x")):
            assert not directory.stamps.is_older(found, holds_logs=True)
        await store.create(PATH, b"what is this", parents=True)
        await directory.stamps.read()
        assert not directory.stamps.is_older(note("x"), holds_logs=True)
        with pytest.raises(BadPayload):
            stamps.decode(PATH, b"{}")

    tell(tmp_path, story)


def test_a_directory_is_not_older_whether_or_not_the_store_took_the_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: Room, store: EnsembleSession) -> None:
        directory = Directory(here, store)
        first = await renewed(store, directory)
        for is_set in (False, True):

            async def lost(path: str, value: bytes, is_set: bool = is_set) -> Node:
                if is_set:
                    await EnsembleSession.set(store, path, value)
                raise SessionLost("away")

            monkeypatch.setattr(store, "set", lost)
            await renewal(directory)
            later = DirectoryStamps(here.broker, store, directory._write)
            await later.read()
            assert not later.is_older(note(*directory.known), holds_logs=True)
        assert later.is_older(note(first), holds_logs=True)

    tell(tmp_path, story)
