"""What serves a request is imported when it is first asked for, and no sooner."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.coordination.groups.share.group import ShareGroup
from headrace.frontends.kafka.connection import cold_calls
from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.handler import RequestContext, load_handler
from headrace.frontends.kafka.connection.registry import APIS
from headrace.frontends.kafka.connection.response_entities import maker
from headrace.frontends.kafka.connection.route import Route
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.invariant import InvariantError
from headrace.model.nouns import OFFSETS_TOPIC
from headrace.net.pending import Pending
from headrace.observe.metrics import Metrics
from headrace.testing import BrokerThread
from headrace.testing.disk import SimDisk
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey
from tests.support.client.client import FrameClient
from tests.support.processes.broker import Room, play, room, until

GROUP, MEMBER, TOPIC = "s", "m", "t"
NOT_FOR_A_PRODUCER = """
import sys
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from headrace.testing import BrokerThread

def loaded(*names):
    return sorted(m for m in sys.modules if m.startswith(names))

with BrokerThread() as broker:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"v")
    assert producer.flush(20) == 0
    print(loaded("headrace.coordination.groups", "headrace.coordination.share", "kio", "hypothesis",
                 "headrace.wire.kafka.coordinator_records", "headrace.frontends.amqp",
                 "headrace.queue_stores", "headrace.queues", "headrace.wire.amqp",
                 "headrace.frontends.rocketmq",
                 "headrace.subscriptions", "headrace.wire.rocketmq",
                 "headrace.cluster.settings.vhost_settings", "headrace.wire.kafka.hot.admin"))
    print(loaded("headrace.frontends.kafka.fetch.fetch."))
    print(loaded("headrace.frontends.kafka.produce.produce")[:1])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("u", 1)])["u"].result(20)
    print(loaded("hypothesis"), loaded("headrace.frontends.kafka.admin.create_"))
"""


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.key.name)
def test_the_code_behind_every_api_can_be_loaded_and_takes_what_it_will_be_given(api: Api) -> None:
    for version in {api.min_version, api.max_version}:
        Route(api, version, Metrics().api(api.key)).load()
    context, request = inspect.signature(load_handler(api)).parameters.values()
    assert context.annotation is RequestContext
    assert (request.annotation is memoryview) is api.hot


def test_a_broker_that_is_only_written_to_has_no_code_of_groups_nor_any_cold_codec() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOT_FOR_A_PRODUCER], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        # The settings of every protocol are known, so that a wrong one is refused.
        "['headrace.wire.amqp', 'headrace.wire.amqp.settings',"
        " 'headrace.wire.rocketmq', 'headrace.wire.rocketmq.settings']",
        "[]",
        "['headrace.frontends.kafka.produce.produce']",
        "[] ['headrace.frontends.kafka.admin.create_topics']",
    ]


IDLE_MODULES_MAX = 290
"""Modules of our own that an idle broker has at most; each costs about 0.25 ms of the start."""
NOT_FOR_AN_IDLE_BROKER = {
    "the first request of its kind": (
        "headrace.frontends.kafka.connection.cold_calls", "headrace.frontends.kafka.fetch.",
        "headrace.operations", "headrace.wire.kafka.hot.fetch", "headrace.wire.kafka.kio_codec",
        "kio",
    ),
    "the first log that is no longer as the last stop left it": (
        "headrace.log.recovery.after_unclean_stop", "headrace.log.recovery.interrupted_operations",
        "headrace.log.recovery.recover", "headrace.log.recovery.replay",
        "headrace.log.segment.check_segment", "headrace.log.truncation",
    ),
    "a timer, with the first log that is due": (
        "headrace.log.compaction.compaction_run", "headrace.log.compaction.job",
        "headrace.log.compaction.plan", "headrace.log.retention",
    ),
    "a metadata store that brokers share": (
        "headrace.cluster.controller.store_watches", "headrace.cluster.controller_port",
        "headrace.cluster.membership.directory_", "headrace.cluster.peers", "headrace.client",
        "kazoo",
    ),
    "a listener with SASL or TLS": ("headrace.config.authentication.", "headrace.net.tls"),
    "a listener of another protocol, a group or a transaction": (
        "headrace.coordination.", "headrace.delivery", "headrace.frontends.amqp",
        "headrace.frontends.management", "headrace.frontends.rocketmq", "headrace.management",
        "headrace.queue_stores", "headrace.queues", "headrace.shards",
        "headrace.subscriptions", "headrace.vhosts",
    ),
    "metrics.listener": (
        "headrace.frontends.http", "headrace.wire.http_targets", "prometheus_client",
    ),
    "an error text": ("shlex",),
}  # fmt: skip
"""Modules by what needs them first."""
NEEDED = {"headrace.coordination.coordinators"}


def imported_by_a_start(tmp_path: Path) -> set[str]:
    """Return the modules that `headrace serve` has imported when it accepts connections."""
    command = [
        sys.executable, "-X", "importtime", "-m", "headrace", "serve", "--port", "0",
        "--data", str(tmp_path / "data"),
    ]  # fmt: skip
    with (
        (tmp_path / "imports").open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        assert any("listens on" in line for line in process.stdout)
        process.kill()
    lines = (tmp_path / "imports").read_text().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def test_idle_broker_has_imported_nothing_that_a_first_use_imports(tmp_path: Path) -> None:
    imported = imported_by_a_start(tmp_path)
    assert "headrace.server.assembly" in imported
    early = {
        use: sorted(name for name in imported - NEEDED if name.startswith(names))
        for use, names in NOT_FOR_AN_IDLE_BROKER.items()
    }
    assert {use: names for use, names in early.items() if names} == {}
    ours = [name for name in imported if name.partition(".")[0] == "headrace"]
    assert len(ours) <= IDLE_MODULES_MAX


def test_logs_that_a_clean_stop_left_are_opened_without_the_code_of_recovery(
    tmp_path: Path,
) -> None:
    with BrokerThread(directory=str(tmp_path / "data")) as broker:
        broker.create_topics("t", partitions=3)
    imported = imported_by_a_start(tmp_path)
    assert "headrace.log.directory.unchanged_logs" in imported
    assert not {name for name in imported if name.startswith("headrace.log.recovery.re")}


class Odd(Route):
    """A route to a handler of the test's own."""

    def __init__(self, handle: Callable[[RequestContext, Any], Any]) -> None:
        api = Api(ApiKey.LIST_GROUPS, "groups", 5, 5)
        super().__init__(api, 5, Metrics().api(api.key))
        self._own = handle

    def load(self) -> None:
        self.handle, self.loaded = self._own, True


class Waiter:
    """Whose answer it is."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def answered(self) -> None:
        self.told.append("answered")

    def failed(self, problem: Exception) -> None:
        self.told.append(problem)


class First:
    """The first request of a route, before and after its code is loaded."""

    def __init__(self, route: Route, body: bytes = b"\x01\x01\x00") -> None:
        self.disk, self.waiter = SimDisk(), Waiter()
        context: Any = SimpleNamespace(api_key=route.key, version=route.version)
        frame = bytearray(body)
        self.pending = cold_calls.call_first(
            route, context, memoryview(frame), spawn=lambda work: work.close(), disk=self.disk
        )
        frame[:] = b"\xff" * len(frame)  # the frame's place is another's now
        self.pending.wait_in(self.waiter)
        assert not self.pending.done

    def loaded(self) -> "First":
        self.disk.settle()
        return self


def nothing_listed(context: RequestContext, request: Any) -> Any:
    assert request.states_filter == ()
    return maker(context)(None, error_code=ErrorCode.NONE, groups=())


def test_a_first_request_is_answered_once_its_code_is_there() -> None:
    first = First(Odd(nothing_listed)).loaded()
    assert first.waiter.told == ["answered"]
    assert isinstance(first.pending.body, bytes)
    answer = kio_codec.decode_response(ApiKey.LIST_GROUPS, 5, memoryview(first.pending.body))
    assert answer.groups == ()


def test_code_that_cannot_be_imported_ends_the_connection_that_asked() -> None:
    api = Api(ApiKey.VOTE, "admin", 0, 0)
    first = First(Route(api, 0, Metrics().api(api.key))).loaded()
    assert first.waiter.told[0] == "answered"
    assert isinstance(first.waiter.told[1], ModuleNotFoundError)


def test_a_first_request_that_is_none_ends_its_connection() -> None:
    first = First(Odd(nothing_listed), b"\x01").loaded()
    assert isinstance(first.waiter.told[-1], Malformed)


def test_a_first_request_that_is_refused_is_told_so() -> None:
    def refuse(context: RequestContext, request: Any) -> Any:
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    first = First(Odd(refuse)).loaded()
    assert isinstance(first.pending.body, bytes)
    answer = kio_codec.decode_response(ApiKey.LIST_GROUPS, 5, memoryview(first.pending.body))
    assert int(answer.error_code) == ErrorCode.NOT_COORDINATOR


def test_a_broken_invariant_in_a_first_request_is_not_kept_from_the_loop() -> None:
    def broken(context: RequestContext, request: Any) -> Any:
        raise InvariantError("broken")

    first = First(Odd(broken))
    first.pending.abandon()
    with pytest.raises(InvariantError):
        first.loaded()


def test_a_first_request_may_wait_for_its_answer_and_its_client_may_go() -> None:
    answers = [Pending(), Pending()]
    left: list[str] = []
    for answer in answers:
        answer.on_abandon = lambda: left.append("gone")
    waiting = iter(answers)
    route = Odd(lambda context, request: next(waiting))
    one = First(route).loaded()
    assert one.waiter.told == []
    answers[0].resolve(b"late")
    assert (one.waiter.told, one.pending.body) == (["answered"], b"late")

    route = Odd(lambda context, request: next(waiting))
    other = First(route).loaded()
    other.pending.abandon()
    assert left == ["gone"]


def made(here: Room) -> set[str]:
    """The coordinators there are."""
    return {"groups", "transactions", "share"} & vars(here.coordinators).keys()


def test_coordinators_come_with_their_topics_and_those_on_disk_with_the_start(
    tmp_path: Path,
) -> None:
    disk = SimDisk()

    async def before() -> None:
        async with room(tmp_path, disk) as here:
            await here.controller.create_topics([NewTopic(TOPIC, 1)])
            await here.controller.delete_topics([TOPIC])
            assert made(here) == set()
            await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
            assert made(here) == {"groups"}

    async def after() -> None:
        async with room(tmp_path, disk) as here:
            assert made(here) == {"groups"}
            assert len(list(here.coordinators.groups.led)) > 0

    play(before())
    play(after())


def members(here: Room) -> list[str] | None:
    """Who is in the group, asked without its service; None while that is not known."""
    try:
        group = here.coordinators.groups.shard(GROUP).modern.find(ShareGroup, GROUP)
    except ApiError:
        return None
    return None if group is None else list(group.members)


def test_a_member_of_a_share_group_is_missed_after_a_restart_though_nobody_asks(
    tmp_path: Path,
) -> None:
    disk = SimDisk()

    async def before() -> None:
        async with room(tmp_path, disk, kill=True) as here:
            await here.controller.create_topics([NewTopic(TOPIC, 1)])
            await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
            joined = await FrameClient(here).ask(
                ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id=GROUP, member_id=MEMBER,
                member_epoch=0, subscribed_topic_names=(TOPIC,),
            )  # fmt: skip
            assert int(joined.error_code) == 0

    async def after() -> None:
        async with room(tmp_path, disk) as here:
            clock: Any = here.broker.clock
            await until(lambda: members(here) == [MEMBER])
            clock.advance(here.broker.config.group_share_session_timeout_ms / 1000 + 1)
            await until(lambda: members(here) == [])

    play(before())
    play(after())
