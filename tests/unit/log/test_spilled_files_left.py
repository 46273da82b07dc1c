"""What AMQP's queues have spilled goes with its broker, and nothing else that lies beside it."""

import errno
import logging

import pytest

from headrace.log import file_names
from headrace.model.protocols import AMQP
from headrace.testing.disk import SimDisk
from tests.support.log.log import PLACE, World, append

PATH = "/data"
OURS = [file_names.process_file(AMQP.process_files, number) for number in (0, 7, 123_456_789)]
OTHERS = [
    "headrace-amqp-spill",
    "headrace-amqp-spill-",
    "headrace-amqp-spill00000000",
    "headrace-amqp-spill-0000000",
    "headrace-amqp-spill-0000000a",
    "headrace-amqp-spill-00000000.bak",
    "my-headrace-amqp-spill-00000000",
    "amqp-spill-00000000",
]


def with_files(disk: SimDisk, names: list[str]) -> None:
    """Put files of these names into the directory."""
    for name in names:
        file = disk.open(f"{PATH}/{name}", create=True)
        file.write_at(0, [b"messages"])
        file.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_removes_what_a_killed_broker_has_spilled_and_nothing_of_others(
    clean: bool,
) -> None:
    world = World()
    append(world.log(), b"a")
    world.flush(world.log())
    with_files(world.disk, OURS + OTHERS)
    world.restart(clean=clean)
    assert [name for name in world.disk.list(PATH) if "spill" in name] == sorted(OTHERS)
    assert [*world.directory.logs] == [PLACE]
    assert world.directory.quarantined == {}


def test_what_cannot_be_removed_is_named_and_the_start_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    append(world.log(), b"a")
    world.flush(world.log())
    with_files(world.disk, OURS[:1])
    remove = world.disk.remove

    def refuse(path: str) -> None:
        if path.endswith(OURS[0]):
            raise OSError(errno.EIO, "no", path)
        remove(path)

    monkeypatch.setattr(world.disk, "remove", refuse)
    world.restart(clean=True)
    assert [*world.directory.logs] == [PLACE]
    (told,) = [record for record in caplog.records if "a spill file" in record.getMessage()]
    assert told.levelno == logging.WARNING
    assert told.getMessage().startswith(f"{PATH}/{OURS[0]}: ")
