"""Logs that get shorter or other outside of replication, on a broker's disk that nobody serves."""

from collections.abc import Callable
from contextlib import closing

from headrace.log import file_names
from headrace.log.directory.state_files import durable_read_bounds
from headrace.log.directory.unchanged_logs import FILE_NAME as AT_REST
from headrace.logtools.repair import Mending, repair_directory
from headrace.ports.disk import Disk
from headrace.record import batch as wire

Image = dict[str, bytes]
"""The files below a directory, by path."""
Change = Callable[[Disk, str, str, Image], None]
"""Changes the partition's directory, the third, in the log directory, the second; the image is an
older one of the log directory."""


def image_of(disk: Disk, path: str) -> Image:
    """Return all files below a directory, read from a disk that may be in use."""
    found: Image = {}
    for name in disk.list(path):
        at = f"{path}/{name}"
        if disk.is_directory(at):
            found |= image_of(disk, at)
        else:
            with closing(disk.open(at, writable=False)) as file:
                found[at] = file.read(0, file.size())
    return found


def put_back(disk: Disk, image: Image, below: str) -> None:
    """Replace a directory by what an image has of it."""
    disk.remove_tree(below)
    for path, content in image.items():
        if path.startswith(f"{below}/"):
            disk.make_directory(path.rpartition("/")[0])
            with closing(disk.open(path, create=True)) as file:
                file.write_at(0, (content,))


def delete_directory(disk: Disk, path: str, partition: str, image: Image) -> None:
    """Delete the partition's directory."""
    disk.remove_tree(f"{path}/{partition}")


def delete_with_checkpoints(disk: Disk, path: str, partition: str, image: Image) -> None:
    """Delete the partition's directory and all files that know of it."""
    disk.remove_tree(f"{path}/{partition}")
    for name in disk.list(path):
        if name.endswith("-checkpoint") or name in (durable_read_bounds.NAME, AT_REST):
            disk.remove(f"{path}/{name}")


def delete_first_segment(disk: Disk, path: str, partition: str, image: Image) -> None:
    """Delete the partition's oldest segment."""
    disk.remove(_segments(disk, f"{path}/{partition}")[0])


def delete_last_segment(disk: Disk, path: str, partition: str, image: Image) -> None:
    """Delete the partition's newest segment that has records."""
    found = _segments(disk, f"{path}/{partition}")
    disk.remove(next(each for each in reversed(found) if disk.stat(each).size))  # type: ignore[union-attr]


def copy_back(disk: Disk, path: str, partition: str, image: Image) -> None:
    """Put an older copy of the partition's directory in its place."""
    put_back(disk, image, f"{path}/{partition}")


def restore_image(disk: Disk, path: str, partition: str, image: Image) -> None:
    """Put an older image of the whole log directory in its place, under the present session."""
    session = f"{path}/{file_names.SESSION}"
    with closing(disk.open(session)) as file:
        present = file.read(0, file.size())
    put_back(disk, image, path)
    disk.replace(session, present)


def repair(disk: Disk, path: str, partition: str, image: Image) -> None:
    """Flip a bit in the oldest segment, and repair the directory."""
    _damage(disk, path, partition)
    repair_directory(Mending(disk, say=lambda _: None), path)


def cut(disk: Disk, path: str, partition: str, image: Image) -> None:
    """Flip a bit in the oldest segment, and repair the directory with --truncate."""
    _damage(disk, path, partition)
    repair_directory(Mending(disk, truncate=True, say=lambda _: None), path)


def repair_what_is_gone(disk: Disk, path: str, partition: str, image: Image) -> None:
    """Delete the partition's directory, and have the directory repaired without it."""
    disk.remove_tree(f"{path}/{partition}")
    repair_directory(Mending(disk, say=lambda _: None), path)


CHANGES: list[Change] = [
    delete_directory, delete_with_checkpoints, delete_first_segment, delete_last_segment,
    copy_back, restore_image, repair, cut, repair_what_is_gone,
]  # fmt: skip


def committed(disk: Disk, directory: str, below: int) -> bytes:
    """Return the batches of a replica that begin below an offset, as they lie in its segments."""
    found = bytearray()
    for path in _segments(disk, directory):
        with closing(disk.open(path, writable=False)) as file:
            data = file.read(0, file.size())
        for position, header in wire.iterate(data):
            if header.base_offset < below:
                found += data[position : position + wire.size_of(header)]
    return bytes(found)


def _damage(disk: Disk, path: str, partition: str) -> None:
    with closing(disk.open(_segments(disk, f"{path}/{partition}")[0])) as file:
        (byte,) = file.read(100, 1)
        file.write_at(100, (bytes((byte ^ 1,)),))


def _segments(disk: Disk, directory: str) -> list[str]:
    names = sorted(name for name in disk.list(directory) if name.endswith(file_names.LOG))
    return [f"{directory}/{name}" for name in names]
