"""Quarantined records whose rows a replay adds or removes: each is a row or waits, not both."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("duckdb")

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine import settlement
from headrace.pipeline.replays.begin import begin_replay, end_building
from headrace.pipeline.replays.covered_records import CoveredRecords
from headrace.pipeline.replays.replay import OutdatedDiffError, Replay, ReplayError, ReplayState
from headrace.pipeline.replays.replay_store import ReplayStore
from headrace.pipeline.replays.steps import apply_replay, compare_replay, undo_replay
from headrace.pipeline.run.storage import Storage
from headrace.spark.source.offsets import Position
from headrace.testing import BrokerThread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.client.client import Client
    from headrace.pipeline.quarantine.records import Quarantined

NOW_MS = 1_795_000_000_000
OWNER = ("shop", "daily")
RETRY = TopicPartition("shop.orders.retry", 0)
READ_ALL = 1_000_000


def rows(*offsets: int) -> pa.Table:
    """Rows of records of partition 0."""
    return pa.table(
        {
            "id": pa.array(offsets, pa.int64()),
            "_partition": pa.array([0] * len(offsets), pa.int32()),
            "_offset": pa.array(offsets, pa.int64()),
        }
    )


class Shop:
    """A live table `orders`, replays of it as a whole, and the quarantine of its topic."""

    def __init__(self, root: Path, client: Client, bootstrap: str) -> None:
        self.storage, self.store = Storage(root), ReplayStore(root)
        self.client, self.bootstrap = client, bootstrap
        self.connected = 0

    def live(self, *offsets: int) -> None:
        """Write rows as a live batch does."""
        write_deltalake(str(self.storage.root / "orders"), rows(*offsets), mode="append")

    def build(self, *offsets: int, end: int = 100) -> str:
        """Build a replay with these rows, of records up to an offset; return its id."""
        replay = begin_replay(
            self.store, "daily", "orders", None, NOW_MS, [("_partition", "_offset")]
        )
        write_deltalake(str(self.store.built(replay)), rows(*offsets))
        replay = self.store.save(replace(replay, offsets={"orders": {"0": (0, end)}}))
        end_building(self.store, replay)
        return compare_replay(self.store, replay.id).id

    def refuse(
        self, *offsets: int, attempt: int = 1, flow: str = "daily", pipeline: str = "shop"
    ) -> None:
        """Write refused records of partition 0 as a pipeline publishes them."""
        producer = Producer(self.client)
        for offset in offsets:
            info = {
                "topic": "orders", "partition": 0, "offset": offset, "timestamp": 1,
                "pipeline": pipeline, "flow": flow, "attempt": attempt, "reason": "r",
            }  # fmt: skip
            headers = [(f"headrace.{name}", str(value).encode()) for name, value in info.items()]
            sending = producer.send(
                "orders.quarantine", b"v", b"k", timestamp=1, headers=headers, partition=0
            )
            run(sending)
        run(producer.flush())

    def send(self, *offsets: int) -> None:
        """Send waiting records again, as `quarantine replay` does."""

        def wanted(record: Quarantined) -> bool:
            return record.place[1] in offsets

        sent = settlement.replay(self.client, "orders", OWNER, wanted)
        assert sent.records == len(offsets)

    def read(self, batch: int, retry_offset: int) -> None:
        """Let the flow's checkpoint have a finished batch up to an offset of the retry topic."""
        checkpoint = self.storage.checkpoint("orders", "daily")
        ends = {TopicPartition("orders", 0): 100, RETRY: retry_offset}
        line = json.dumps(Position(self.bootstrap, ends).to_json())
        for name, content in (("offsets", f"v1\n{{}}\n{line}"), ("commits", "v1\n{}")):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
            (checkpoint / name / str(batch)).write_text(content)

    @property
    def notes(self) -> CoveredRecords:
        return CoveredRecords(self.connect, "shop", self.storage)

    def connect(self) -> Client:
        self.connected += 1
        return connect(self.bootstrap)

    def apply(self, id_: str) -> Replay:
        return apply_replay(self.store, id_, NOW_MS, self.notes)

    def undo(self, id_: str) -> Replay:
        return undo_replay(self.store, id_, self.notes)

    def states(self) -> dict[int, list[str]]:
        """The states of flow `daily`'s refused records by offset, the first attempt's first."""
        found: dict[int, list[str]] = {}
        for record, outcome in settlement.waiting(self.client, "orders", lambda _: True):
            if record.owner == OWNER:
                found.setdefault(record.place[1], []).append(outcome or "waiting")
        return found

    def offsets(self) -> list[int]:
        """The offsets of the table's rows; fails if one is there twice."""
        table = DeltaTable(str(self.storage.root / "orders")).to_pyarrow_table()
        found: list[int] = sorted(table["_offset"].to_pylist())
        assert not [offset for offset, count in Counter(found).items() if count > 1]
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A table with the rows 0 and 1."""
    with BrokerThread() as broker, connect(broker.bootstrap) as client:
        broker.create_topics("orders", "orders.quarantine", partitions=1)
        found = Shop(tmp_path / "data", client, broker.bootstrap)
        found.live(0, 1)
        yield found


def test_rows_of_a_replay_are_covered_until_its_undo(shop: Shop) -> None:
    shop.refuse(5, 6)
    replay = shop.build(0, 1, 5)
    shop.apply(replay)
    assert shop.states() == {5: ["covered"], 6: ["waiting"]}
    assert shop.offsets() == [0, 1, 5]
    shop.undo(replay)
    assert shop.states() == {5: ["waiting"], 6: ["waiting"]}
    assert shop.offsets() == [0, 1]


def test_records_of_other_flows_pipelines_and_later_offsets_are_left_alone(shop: Shop) -> None:
    shop.refuse(5, flow="hourly")
    shop.refuse(5, pipeline="other")
    shop.refuse(5, 50)
    shop.apply(shop.build(5, 50, end=50))
    states = Counter(
        (*record.owner, record.place[1], outcome)
        for record, outcome in settlement.waiting(shop.client, "orders", lambda _: True)
    )
    assert states == Counter(
        [
            ("shop", "hourly", 5, None),
            ("other", "daily", 5, None),
            ("shop", "daily", 5, "covered"),
            ("shop", "daily", 50, None),
        ]
    )


def test_dropped_records_stay_dropped(shop: Shop) -> None:
    shop.refuse(5)
    settlement.drop(shop.client, "orders", OWNER, lambda _: True)
    replay = shop.build(0, 5)
    shop.apply(replay)
    assert shop.states() == {5: ["dropped"]}
    shop.undo(replay)
    assert shop.states() == {5: ["dropped"]}


def test_only_the_newest_attempt_of_a_record_is_covered(shop: Shop) -> None:
    shop.refuse(5)
    shop.send(5)
    shop.read(0, READ_ALL)
    shop.refuse(5, attempt=2)
    replay = shop.build(0, 5)
    shop.apply(replay)
    assert shop.states() == {5: ["replayed", "covered"]}
    shop.undo(replay)
    assert shop.states() == {5: ["replayed", "waiting"]}


@pytest.mark.parametrize("read", [None, 0])
def test_a_record_that_the_flow_has_still_to_read_refuses_the_apply(
    shop: Shop, read: int | None
) -> None:
    """Without a finished batch, and with one before the record."""
    shop.refuse(5, 6)
    replay = shop.build(0, 1, 5, 6)
    shop.send(5)
    if read is not None:
        shop.read(0, read)
        shop.read(1, read)
    with pytest.raises(OutdatedDiffError, match=r"1 record .*orders-0@5.* has still to read") as no:
        shop.apply(replay)
    assert "let the pipeline run, then discard r1" in str(no.value)
    assert shop.states() == {5: ["replayed"], 6: ["waiting"]}
    assert shop.offsets() == [0, 1]
    assert shop.store.load(replay).state is ReplayState.DIFFED


def test_a_record_that_another_flow_has_still_to_read_does_not(shop: Shop) -> None:
    shop.refuse(5)
    shop.refuse(5, flow="hourly")
    shop.send(5)
    shop.read(0, 2)  # the record and the marker of its transaction
    settlement.replay(shop.client, "orders", ("shop", "hourly"), lambda _: True)
    shop.apply(shop.build(0, 5))
    assert (shop.offsets(), shop.states()) == ([0, 5], {5: ["replayed"]})


def test_a_record_that_the_flow_has_written_since_refuses_the_apply(shop: Shop) -> None:
    shop.refuse(5)
    replay = shop.build(0, 1, 5)
    shop.send(5)
    shop.live(5)
    shop.read(0, READ_ALL)
    with pytest.raises(OutdatedDiffError, match=r"orders-0@5.* has written .*: discard r1"):
        shop.apply(replay)
    assert shop.offsets() == [0, 1, 5]
    again = shop.build(0, 1, 5)
    shop.apply(again)
    assert shop.offsets() == [0, 1, 5]
    shop.undo(again)
    assert shop.offsets() == [0, 1, 5]
    assert shop.states() == {5: ["replayed"]}


def test_a_record_that_the_flow_has_read_and_left_out_is_a_row_of_the_replay(shop: Shop) -> None:
    """The flow's condition was another one then: no row of it comes any more."""
    shop.refuse(5)
    shop.send(5)
    shop.read(0, READ_ALL)
    replay = shop.build(0, 1, 5)
    shop.apply(replay)
    assert (shop.offsets(), shop.states()) == ([0, 1, 5], {5: ["replayed"]})
    shop.undo(replay)
    assert (shop.offsets(), shop.states()) == ([0, 1], {5: ["replayed"]})


def test_a_record_whose_row_is_removed_waits_again_until_the_undo(shop: Shop) -> None:
    shop.refuse(1, 7)
    shop.send(1)
    shop.read(0, READ_ALL)
    replay = shop.build(0)
    shop.apply(replay)
    assert shop.states() == {1: ["waiting"], 7: ["waiting"]}
    assert shop.offsets() == [0]
    shop.undo(replay)
    assert shop.states() == {1: ["covered"], 7: ["waiting"]}
    assert shop.offsets() == [0, 1]


@pytest.mark.parametrize("written", [False, True])
def test_an_undo_is_refused_if_its_rows_were_sent_again(shop: Shop, written: bool) -> None:
    """Its other records, which were noted before the refusal, wait as before."""
    shop.refuse(0, 1)
    shop.send(0, 1)
    shop.read(0, READ_ALL)
    replay = shop.build(2)
    shop.apply(replay)
    assert shop.states() == {0: ["waiting"], 1: ["waiting"]}
    shop.send(1)
    shop.read(1, READ_ALL if written else 0)
    if written:
        shop.live(1)
    with pytest.raises(ReplayError, match=r"r1 cannot be undone: 1 record .* again instead"):
        shop.undo(replay)
    assert shop.offsets() == ([1, 2] if written else [2])
    assert shop.states() == {0: ["waiting"], 1: ["replayed"]}
    assert shop.store.load(replay).state is ReplayState.APPLIED


def test_the_undo_of_the_upper_replay_leaves_the_lower_ones_records_covered(shop: Shop) -> None:
    shop.refuse(5)
    lower = shop.build(0, 1, 5)
    shop.apply(lower)
    upper = shop.build(0, 5)
    shop.apply(upper)
    shop.undo(upper)
    assert (shop.offsets(), shop.states()) == ([0, 1, 5], {5: ["covered"]})
    shop.undo(lower)
    assert (shop.offsets(), shop.states()) == ([0, 1], {5: ["waiting"]})


def test_a_batch_that_refuses_again_during_the_notes_is_not_missed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends between the notes and the look at the retry topic, and its record waits then."""
    shop.refuse(5)
    shop.send(5)
    shop.read(0, 0)
    replay = shop.build(0, 1, 5)
    settle = settlement.settle

    def ended(*arguments: Any) -> int:
        count = settle(*arguments)
        shop.refuse(5, attempt=2)
        shop.read(1, READ_ALL)
        return count

    with monkeypatch.context() as patched:
        patched.setattr("headrace.pipeline.replays.covered_records.settle", ended)
        with pytest.raises(OutdatedDiffError, match="still to read"):
            shop.apply(replay)
    assert shop.offsets() == [0, 1]


def test_a_topic_without_a_quarantine_needs_no_notes(tmp_path: Path) -> None:
    with BrokerThread() as broker, connect(broker.bootstrap) as client:
        broker.create_topics("orders", partitions=1)
        shop = Shop(tmp_path / "data", client, broker.bootstrap)
        shop.live(0, 1)
        replay = shop.build(0, 5)
        shop.apply(replay)
        assert shop.offsets() == [0, 5]
        shop.undo(replay)
        assert shop.offsets() == [0, 1]


def test_no_broker_is_asked_for_rows_without_a_position_or_of_an_older_version(shop: Shop) -> None:
    shop.refuse(5)
    replay = shop.build(0, 1, 5)
    shop.store.save(replace(shop.store.load(replay), offsets={}))
    shop.apply(replay)
    shop.undo(replay)
    assert shop.connected == 0
    older = shop.build(0, 5)
    shop.storage.checkpoint_of("orders", "daily", 1).mkdir(parents=True)
    shop.apply(older)
    assert shop.connected == 0, "the flow writes orders@1 now"
    assert shop.states() == {5: ["waiting"]}
