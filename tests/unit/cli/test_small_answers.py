"""What commands print now and then: times, coordinators' records, and a cluster watched."""

import pytest

from headrace.cli.main import run
from headrace.cli.records.coordinator_formats import coordinator_formatter
from headrace.coordination.groups.consumer import records as consumer_records
from headrace.coordination.groups.modern.changes import GroupEpoch
from headrace.logtools.dump.coordinator_rows import KINDS
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.record.record import Record
from headrace.terminal import watching
from headrace.terminal.failure import UsageError, line_of
from headrace.terminal.record_formats import shown_time

OFFSETS = TopicPartition(OFFSETS_TOPIC, 3)


class _Ended(Exception):
    """The watch is over."""


@pytest.mark.parametrize("terminal", [False, True])
def test_a_watch_shows_again_and_goes_on_when_the_cluster_does_not_answer(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shows = 0
    slept: list[float] = []

    def show() -> None:
        nonlocal shows
        shows += 1
        if shows == 2:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "not now")
        print(f"view {shows}")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise _Ended

    monkeypatch.setattr("headrace.terminal.watching.time.sleep", sleep)
    monkeypatch.setattr(watching, "is_terminal", lambda: terminal)
    with pytest.raises(_Ended):
        watching.shown(2.5, show, parted=True)
    shown = capsys.readouterr()
    between = watching.CLEAR_SCREEN if terminal else "\n"
    views = ["view 1\n", "", "view 3\n"]
    assert shown.out == (between if terminal else "") + between.join(views)
    assert (
        shown.err == f"headrace: {line_of(ApiError(ErrorCode.REQUEST_TIMED_OUT, 'not now'))[0]}\n"
    )
    assert slept == [2.5] * 3


def test_what_cannot_be_shown_the_first_time_ends_the_watch() -> None:
    def show() -> None:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT)

    with pytest.raises(ApiError):
        watching.shown(2.5, show, parted=True)


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (-1, ""),
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (1 << 62, str(1 << 62)),
    ],
)
def test_a_time_is_shown_as_such_where_it_is_one(timestamp: int, text: str) -> None:
    assert shown_time(timestamp) == text


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(0, 1, key, value)


def test_a_coordinators_record_that_is_cut_anywhere_is_named_with_its_offset() -> None:
    key, value = consumer_records.encode("g", GroupEpoch(3, 0))
    assert value is not None
    show = coordinator_formatter("consumer-groups")
    assert b'"epoch":3' in show(OFFSETS, record(key, value))
    assert b'"value":null' in show(OFFSETS, record(key, None))
    for length in range(2, len(key)):
        with pytest.raises(UsageError, match="__consumer_offsets-3 at offset 0: "):
            show(OFFSETS, record(key[:length], value))
    for length in range(len(value)):
        with pytest.raises(UsageError, match="__consumer_offsets-3 at offset 0: "):
            show(OFFSETS, record(key, value[:length]))


def test_a_coordinators_formatter_passes_over_what_is_of_another_kind() -> None:
    key, value = consumer_records.encode("g", GroupEpoch(3, 0))
    for name in ("offsets", "group-metadata", "share-groups"):
        assert coordinator_formatter(name)(OFFSETS, record(key, value)) == b""
    for short in (None, b"", b"\0"):
        assert coordinator_formatter("offsets")(OFFSETS, record(short, value)) == b""
    with pytest.raises(UsageError, match="t has no such records"):
        coordinator_formatter("offsets")(TopicPartition("t", 0), record(key, value))


@pytest.mark.parametrize("name", ["", "nonsense", "org.apache.kafka."])
def test_a_formatter_that_is_none_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match=", ".join(KINDS)):
        coordinator_formatter(name)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["produce", "t", "file", "--follow", "log"],
            "--follow cannot be combined with other files",
        ),
        (
            ["produce", "file", "--topic", "t", "--follow", "log"],
            "--follow cannot be combined with other files",
        ),
        (["serve", "--log-file", "x"], "--log-file needs --daemon"),
    ],
)
def test_words_that_do_not_go_together_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert said in capsys.readouterr().err
