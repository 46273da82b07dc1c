"""The file `headrace-directories` in each log directory: facts that the next start needs.

directory.id   this directory's id
together       ids of all directories of the broker, missing ones included while it matters
boot.id        the boot of the machine under which the file was written
acks           flushed: acks wait for the disk. unflushed: they do not. unclean: a power
               failure came, and replicas are still in doubt
stamps         stamps by which a start recognises an older copy (`directory_stamps`)
older          true: a start found an older copy, and replicas are still in doubt
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
    """Ids of all directories of the broker; also of missing ones, while replicas are in doubt."""
    boot_id: str
    acks: str
    """FLUSHED: acks wait for the disk. UNFLUSHED: they do not, under this boot. UNCLEAN: a power
    failure came, and replicas are still in doubt."""
    stamps: tuple[str, ...] = ()
    """Include the stamp that the store has, unless the directory is an older copy. Empty: a version
    without stamps wrote the file."""
    older: bool = False
    """Whether a start found that the directory is an older copy, and replicas are still in
    doubt."""

    def encode(self) -> bytes:
        """Return the file's content. Earlier versions ignore the last two lines."""
        return (
            f"version=0\ndirectory.id={self.directory_id}\ntogether={','.join(self.together)}\n"
            f"boot.id={self.boot_id}\nacks={self.acks}\nstamps={','.join(self.stamps)}\n"
            f"older={'true' if self.older else 'false'}\n"
        ).encode()


def read(directory: LogDirectory) -> Note | None:
    """Return the file's content, or None if it is missing. Blocking. Raises ConfigError."""
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
    """Write the file if its content differs, as a full disk has no space. Blocking.

    Raises OSError.
    """
    if read_file(directory.disk, path_in(directory)) != note.encode():
        directory.disk.replace(path_in(directory), note.encode())


def path_in(directory: LogDirectory) -> str:
    """Return the file's path."""
    return f"{directory.path}/{file_names.DIRECTORIES}"
