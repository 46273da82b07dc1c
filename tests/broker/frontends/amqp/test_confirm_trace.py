"""The way of one confirmed publish on a durable queue: how many source files it enters."""

import sys
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

import headrace
from headrace.testing import BrokerThread
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ConfirmSelect
from headrace.wire.amqp.model_methods import BasicAck, QueueDeclare
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.messages import publish_frames
from tests.support.amqp.topics import CONFIG
from tests.support.amqp.wire import AmqpWire

ROOT = str(Path(headrace.__file__).parent) + "/"
PUBLISHES = 8
OWN = ("frontends/", "queues/", "vhosts/")
FILES_BEFORE, OWN_FILES_BEFORE = 66, 30
"""The same at 5ea511b8, counted by a copy of this test there. AMQP had the rooms `frontends/amqp`
(12 files) and `coordination/queues` (18); the other 36 files are of net (6), wire (3), security,
broker (5), log (9), record (3), posix (6), model, observe and server."""
FILES_MAX = 55
OWN_FILES_MAX = 18


class Trace:
    """Calls of functions of this package on the thread of the broker's loop."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        """The files of caller and callee, below the package; another package's is empty."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call: for `sys.setprofile`."""
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            caller = "" if frame.f_back is None else frame.f_back.f_code.co_filename
            self.calls.append((_below(caller), _below(frame.f_code.co_filename)))

    @property
    def files(self) -> set[str]:
        """The source files that were entered."""
        return {callee for _, callee in self.calls if not callee.startswith("testing/")}

    @property
    def entries(self) -> list[tuple[str, str]]:
        """Calls into frontends from rooms that are not the network's."""
        return [
            (caller, callee)
            for caller, callee in self.calls
            if callee.startswith("frontends/")
            and not caller.startswith(("frontends/", "net/"))
            and caller
        ]


def _trace(trace: Trace | None, _: object) -> None:
    sys.setprofile(trace)


def _below(path: str) -> str:
    return path.removeprefix(ROOT) if path.startswith(ROOT) else ""


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    """Publishes that are confirmed, each traced from its frames to its confirm."""
    found: list[Trace] = []
    with BrokerThread(CONFIG) as broker:
        wire = AmqpWire(broker.call(lambda server: server.listeners[1].port))
        wire.ask(QueueDeclare(queue="q", durable=True))
        wire.ask(ConfirmSelect())
        header = make_header(4, Properties(delivery_mode=2))
        frames = publish_frames(1, Message("", "q", header, b"body"))
        for _ in range(PUBLISHES):
            trace = Trace()
            broker.call(partial(_trace, trace))
            wire.send(frames)
            assert isinstance(wire.method(), BasicAck)
            broker.call(partial(_trace, None))
            found.append(trace)
        wire.close()
    return found


def test_confirm_of_publish_enters_few_source_files(traces: list[Trace]) -> None:
    fewest = min((trace.files for trace in traces), key=len)
    assert len(fewest) <= FILES_MAX, sorted(fewest)
    own = [file for file in fewest if file.startswith(OWN)]
    assert len(own) <= OWN_FILES_MAX, sorted(own)


def test_confirm_enters_frontends_once_for_the_completion(traces: list[Trace]) -> None:
    shortest = min(traces, key=lambda trace: len(trace.calls))
    ((_, completed),) = shortest.entries
    assert completed == "frontends/amqp/channel/basic_publish.py"
