"""`headrace-directories`: facts in each log directory that the next start needs.

Its id, the ids of all directories of its broker, whether acks have waited for its flushes, and the
stamps by which a start recognises an older copy of the directory (`directory_stamps`).
"""

from typing import NamedTuple

from headrace.log import file_names
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.text_files import read_file, read_properties
from headrace.model.errors import ConfigError

FLUSHED, UNFLUSHED, UNCLEAN = "flushed", "unflushed", "unclean"


class Note(NamedTuple):
    """The content of a log directory's `headrace-directories`."""

    directory_id: str
    together: tuple[str, ...]
    """The ids of all directories of its broker; of those that are gone too, while that matters."""
    boot_id: str
    acks: str
    """FLUSHED: they wait for the disk. UNFLUSHED: not, under this boot. UNCLEAN: a power cut came,
    and replicas are in doubt still."""
    stamps: tuple[str, ...] = ()
    """Include the store's stamp, unless the directory is an older copy. Empty: an earlier version
    wrote the file."""
    older: bool = False
    """Whether a start has found an older copy, and replicas are in doubt still."""

    def encode(self) -> bytes:
        """Return the file's content. Earlier versions ignore the last two lines."""
        return (
            f"version=0\ndirectory.id={self.directory_id}\ntogether={','.join(self.together)}\n"
            f"boot.id={self.boot_id}\nacks={self.acks}\nstamps={','.join(self.stamps)}\n"
            f"older={'true' if self.older else 'false'}\n"
        ).encode()


def read(directory: LogDirectory) -> Note | None:
    """Return the file's content, or None if it is missing. Blocking. ConfigError."""
    content = read_file(directory.disk, path_in(directory))
    if content is None:
        return None
    found = read_properties(content)
    try:
        return Note(
            found["directory.id"],
            tuple(found["together"].split(",")),
            found["boot.id"],
            found["acks"],
            tuple(filter(None, found.get("stamps", "").split(","))),
            found.get("older") == "true",
        )
    except KeyError as missing:
        raise ConfigError(
            f"{path_in(directory)}: {missing.args[0]} is missing; remove the file: what is not"
            " in this broker's directories is then fetched from others"
        ) from None


def write(directory: LogDirectory, note: Note) -> None:
    """Write the file if its content differs: a full disk has no space. Blocking. OSError."""
    if read_file(directory.disk, path_in(directory)) != note.encode():
        directory.disk.replace(path_in(directory), note.encode())


def path_in(directory: LogDirectory) -> str:
    """Return the file's path."""
    return f"{directory.path}/{file_names.DIRECTORIES}"
