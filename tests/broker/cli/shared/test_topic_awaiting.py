"""`headrace consume` of a topic that is not there yet, and times counted back from now."""

import threading
import time

import pytest

from headrace.cli.main import run as command
from headrace.terminal.failure import UsageError
from headrace.terminal.offset_positions import parse_place
from headrace.testing import BrokerThread
from tests.broker.cli.test_consume import send


def test_a_topic_is_waited_for_and_read_from_its_first_record(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with BrokerThread({"auto.create.topics.enable": "false"}) as broker:

        def later() -> None:
            broker.create_topics("t")
            send(broker.bootstrap, b"one", b"two")

        timer = threading.Timer(1.0, later)
        timer.start()
        code = command(["consume", "t", "-n", "2", "--timeout", "60", "-b", broker.bootstrap])
        timer.join()
    said = capfd.readouterr()
    assert (code, said.out) == (0, "one\ntwo\n")
    assert said.err.splitlines() == [
        "there is no topic t; there is no topic at all; waiting 60 s for it",
        "t: created",
    ]


def test_waiting_for_a_topic_ends_in_time_and_is_not_begun_where_it_makes_no_sense(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with BrokerThread({"auto.create.topics.enable": "false"}) as broker:
        broker.create_topics("there")
        began = time.monotonic()
        assert command(["consume", "ther", "--timeout", "1", "-b", broker.bootstrap]) == 4
        assert time.monotonic() - began >= 1
        said = capfd.readouterr().err.splitlines()
        assert said[-1] == "headrace: there is no topic ther; did you mean there?"
        assert len(said) == 2
        assert command(["consume", "ther", "-e", "-b", broker.bootstrap]) == 4, "all that is there"
        assert len(capfd.readouterr().err.splitlines()) == 1
        assert command(["consume", "%RETRY%g", "-b", broker.bootstrap]) == 4, "RocketMQ's name"
        held = "the Kafka topic of RocketMQ's %RETRY%g is __rocketmq..25RETRY.25g"
        assert capfd.readouterr().err == f"headrace: there is no topic %RETRY%g; {held}\n"
        assert command(["topic", "describe", "%RETRY%g", "-b", broker.bootstrap]) == 4
        assert held in capfd.readouterr().err
        assert command(["consume", "a b", "-b", broker.bootstrap]) == 2, "never there"
        assert len(capfd.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("@-1h", 3600), ("@-30m", 1800), ("@-2d", 172_800), ("@-45S", 45), ("@-1d2h3m4s", 93_784)],
)
def test_a_time_may_be_counted_back_from_now(text: str, seconds: int) -> None:
    before = time.time()
    place = parse_place(text, "-o")
    assert place.kind == "time"
    assert before - seconds - 1 <= place.number / 1000 <= time.time() - seconds + 1


def test_a_time_before_1970_is_its_start() -> None:
    assert parse_place("@-99999d", "-o").number == 0


@pytest.mark.parametrize("text", ["@-", "@-1", "@-h", "@1h", "@-1m1h", "@-1.5h", "@--1h", "@-1w"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="must be milliseconds, a time as"):
        parse_place(text, "-o")
