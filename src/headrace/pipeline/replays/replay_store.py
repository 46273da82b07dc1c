"""The records of replays on disk, `<storage>/_pipeline/replays/<id>.json`."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.pipeline.replays.replay import Replay, ReplayError, UnknownReplayError
from headrace.spark.durable import replace_file
from headrace.spark.tables.attempts import locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NUMBER = re.compile(r"r(\d+)")


class ReplayStore:
    """The replays of one storage directory. Several processes may use it."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._directory = storage / "_pipeline" / "replays"

    def table(self, name: str) -> Path:
        """Return the directory of a table."""
        return self._storage / name

    def built(self, replay: Replay) -> Path:
        """Return the directory of the replay's table."""
        return self._storage / f"{replay.table}@{replay.id}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Block other processes that change a replay; the kernel ends it with the process."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with locked(self._directory):
            yield

    def next_id(self) -> str:
        """Return an id that no record and no table of a replay has. The caller holds the lock."""
        names = [file.stem for file in self._directory.glob("*.json")]
        names += [path.name.rpartition("@")[2] for path in self._storage.glob("*@*")]
        numbers = [int(found[1]) for name in names if (found := _NUMBER.fullmatch(name))]
        return f"r{max(numbers, default=0) + 1}"

    def all(self) -> list[Replay]:
        """Return all replays, the oldest first."""
        found = [self._read(file) for file in self._directory.glob("*.json")]
        return sorted(found, key=lambda replay: (len(replay.id), replay.id))

    def load(self, id_: str, flow: str | None = None) -> Replay:
        """Return a replay, of this flow. UnknownReplayError if it does not exist."""
        known = {replay.id: replay for replay in self.all() if flow in (None, replay.flow)}
        if id_ not in known:
            of = "" if flow is None else f" of {flow}"
            there = ", ".join(known) or "none"
            raise UnknownReplayError(f"there is no replay {id_}{of}; there are: {there}")
        return known[id_]

    def save(self, replay: Replay) -> Replay:
        """Store a replay durably and return it. ReplayError if the disk refuses it."""
        content = json.dumps(replay.to_json(), sort_keys=True).encode()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            replace_file(self._storage, self._directory / f"{replay.id}.json", content)
        except OSError as error:
            raise ReplayError(
                f"{self._directory} cannot be written: {error.strerror}; the next start of this "
                "command or of the pipeline completes what was begun"
            ) from error
        return replay

    def _read(self, file: Path) -> Replay:
        try:
            return Replay.of_json(json.loads(file.read_bytes()))
        except (ValueError, KeyError, TypeError) as error:
            raise ReplayError(
                f"{file} is damaged ({error}): delete it, and the table {self._storage}/…@"
                f"{file.stem} that belongs to it"
            ) from error
