"""`headrace consume --share`: what was printed is accepted, what was not comes to others."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from headrace.cli.records.consume_printer import Printer
from headrace.cli.records.consume_share import consume_share
from headrace.model.nouns import TopicPartition
from headrace.record import batch as batches
from headrace.terminal.record_formats import json_formatter
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says, asker, sayer, send
from tests.support.processes.dev_process import trial


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it holds within half a minute."""
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("jobs")
        send(started.bootstrap, "jobs", 10)
        yield started


@pytest.fixture
def earliest(asked: Asked) -> None:
    """Have the group begin at the start, as a user would."""
    setting = "share.auto.offset.reset=earliest"
    assert asked("config set", "group", "workers", setting)[0] == 0


@pytest.mark.usefixtures("earliest")
def test_each_record_is_printed_once_and_the_group_has_nothing_left(
    asked: Asked, says: Says
) -> None:
    code, printed, said = says("consume", "jobs", "--share", "workers", "-n", "4")
    assert (code, printed) == (0, "0\n1\n2\n3\n")
    assert "share group workers is new: it starts at its share.auto.offset.reset" in said
    code, printed, said = says("consume", "jobs", "--share", "workers", "-n", "6")
    assert (code, printed, said) == (0, "4\n5\n6\n7\n8\n9\n", "")
    code, printed, said = says("consume", "jobs", "--share", "workers", "--timeout", "1")
    assert (code, printed, said) == (0, "", "")
    _, (group,) = asked("share describe", "workers")
    assert (group["state"], group["members"], group["lag"]) == ("Empty", [], 0)


@pytest.mark.usefixtures("earliest")
def test_records_are_printed_in_the_forms_of_consume(asked: Asked) -> None:
    code, records = asked("consume", "jobs", "--share", "workers", "-n", "10")
    assert (code, [record["offset"] for record in records]) == (0, list(range(10)))


@pytest.mark.usefixtures("earliest")
def test_a_member_accepts_what_it_has_printed_at_once_and_leaves_when_it_is_stopped(
    asked: Asked, broker: BrokerThread
) -> None:
    command = [
        sys.executable, "-m", "headrace", "consume", "jobs", "--share", "workers",
        "-b", broker.bootstrap,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(10)][-1] == b"9\n"
        assert eventually(lambda: asked("share describe", "workers")[1][0]["lag"] == 0)
        assert len(asked("share describe", "workers")[1][0]["members"]) == 1
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert asked("share describe", "workers")[1][0]["members"] == []


@pytest.mark.usefixtures("earliest")
def test_damaged_records_end_it_with_their_offset_and_a_way_on(
    says: Says, broker: BrokerThread
) -> None:
    send(broker.bootstrap, "jobs", 1)
    path = Path(broker.directory) / "jobs-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    code, printed, said = says("consume", "jobs", "--share", "workers", "--request-timeout", "2")
    assert (code, printed.splitlines()) == (1, [str(number) for number in range(10)])
    *_, waiting, last = said.splitlines()
    assert waiting.startswith("jobs-0 cannot be read: ")
    assert waiting.endswith("; retrying for 2 s")
    assert "headrace share reset workers --to OFFSET --topics TOPIC:PARTITION --execute" in last
    moved = ("--to", "11", "--topics", "jobs:0", "--execute")
    assert says("share", "reset", "workers", *moved)[0] == 0
    send(broker.bootstrap, "jobs", 1)
    code, printed, said = says("consume", "jobs", "--share", "workers", "-n", "1", "-f", "%o\\n")
    assert (code, printed, said) == (0, "11\n", "")


@pytest.mark.usefixtures("earliest")
def test_bytes_that_arrive_damaged_end_it_behind_those_that_are_sound(
    asked: Asked, says: Says, broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker.bootstrap, "jobs", 1)
    sound = batches.crc_ok

    def wrong(view: batches.Bytes, header: batches.BatchHeader) -> bool:
        return header.base_offset < 10 and sound(view, header)

    monkeypatch.setattr("headrace.client.consumer.consumer.batches.crc_ok", wrong)
    code, printed, said = says("consume", "jobs", "--share", "workers")
    assert (code, printed.splitlines()) == (1, [str(number) for number in range(10)])
    assert "jobs-0 at offset 10: " in said.splitlines()[-1]
    _, (group,) = asked("share describe", "workers")
    assert (group["members"], group["lag"]) == ([], 1), "what was printed before is done"


@pytest.mark.parametrize(("words", "said"), [
    ("-g readers", "--share and --group: cannot be combined"),
    ("-p 0", "--share and --partition: the group assigns partitions"),
    ("--from-beginning", "headrace config set group w share.auto.offset.reset=earliest"),
    ("-o 5", "move it with headrace share reset w"),
    ("-e", "--timeout ends if no record arrives"),
    ("--skip-damaged", "the group delivers records in its own order"),
    ("--read-committed", "headrace config set group w share.isolation.level=read_committed"),
    ("--isolation-level read_committed", "share.isolation.level=read_committed"),
])  # fmt: skip
def test_flags_that_a_share_group_decides_are_refused_with_what_to_say_instead(
    words: str, said: str, says: Says
) -> None:
    code, printed, remarks = says("consume", "jobs", "--share", "w", *words.split())
    assert (code, printed, said in remarks) == (2, "", True), remarks


def test_records_come_from_whichever_brokers_lead_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with trial(tmp_path, "--brokers", "3") as bootstrap:
        says = sayer(bootstrap, capsys)
        asked = asker(says)
        assert asked("topic create", "jobs", "-p", "3")[0] == 0
        for partition in range(3):
            send(bootstrap, "jobs", 10, partition=partition)
        assert asked("config set", "group", "w", "share.auto.offset.reset=earliest")[0] == 0
        words = ("consume", "jobs", "--share", "w", "-f", "%p %o\\n")
        code, first, _ = says(*words, "-n", "12")
        assert code == 0
        code, second, remarks = says(*words, "-n", "18")
        assert (code, remarks) == (0, "")
        printed = [*first.splitlines(), *second.splitlines()]
        assert sorted(printed) == sorted(f"{p} {o}" for p in range(3) for o in range(10))


def test_what_was_printed_of_offsets_that_come_again_says_nothing_of_those_that_follow() -> None:
    """A chunk that comes a second time, lower than the last, is cut off before its first record."""
    settled: list[tuple[int, dict[TopicPartition, int]]] = []
    where = TopicPartition("jobs", 0)

    class Reader:
        def __init__(self) -> None:
            self.starts = iter((100, 50))

        def join(self) -> None: ...

        def poll(self, left: int | None) -> list[int]:
            return [next(self.starts)]

        def print(self, start: int, printer: Printer) -> bool:
            if start == 50:
                raise KeyboardInterrupt
            printer.printed[where] = start + 1
            return True

        def settle(self, printed: Mapping[TopicPartition, int]) -> None:
            settled.append((1, dict(printed)))

        def close(self, printed: Mapping[TopicPartition, int]) -> None:
            settled.append((2, dict(printed)))

    with pytest.raises(KeyboardInterrupt):
        consume_share(Reader(), Printer(json_formatter(), None), None)  # type: ignore[arg-type]
    assert settled == [(1, {where: 101}), (2, {})]
