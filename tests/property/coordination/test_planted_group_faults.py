"""Each kind of mistake a group can make is planted once; its random lives must find it."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from headrace.coordination.groups import commit
from headrace.coordination.groups.committed_offsets import OffsetStore
from headrace.model.errors import ApiError, ErrorCode
from headrace.shards.journal import Journal
from tests.property.coordination.test_groups_machine import GroupMachine

LIVES = settings(
    max_examples=300,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
Plant = Callable[[pytest.MonkeyPatch], None]


def answered_before_it_is_flushed(patch: pytest.MonkeyPatch) -> None:
    honest = commit._keep

    def keep(shard: Any, group: Any, changes: Any, written: Any, done: Any) -> None:
        done(ErrorCode.NONE)
        honest(shard, group, changes, written, lambda _: None)

    patch.setattr(commit, "_keep", keep)


def shown_before_it_is_flushed(patch: pytest.MonkeyPatch) -> None:
    honest = commit._keep

    def keep(shard: Any, group: Any, changes: Any, written: Any, done: Any) -> None:
        for place, committed in changes:
            shard.offsets.put(place, committed)
        honest(shard, group, changes, written, done)

    patch.setattr(commit, "_keep", keep)


def a_refused_append_is_taken(patch: pytest.MonkeyPatch) -> None:
    honest = Journal.append_soon

    def append_soon(self: Journal, records: Any, done: Any, late: Any = None) -> None:
        honest(self, records, lambda _: done(None), late)

    patch.setattr(Journal, "append_soon", append_soon)


def the_first_offset_stays(patch: pytest.MonkeyPatch) -> None:
    honest = OffsetStore.put

    def put(self: OffsetStore, place: Any, committed: Any) -> None:
        if self.get(place) is None:
            honest(self, place, committed)

    patch.setattr(OffsetStore, "put", put)


def any_generation_commits(patch: pytest.MonkeyPatch) -> None:
    honest = commit._checked

    def checked(shard: Any, request: Any, *, transactional: bool = False) -> Any:
        try:
            return honest(shard, request, transactional=transactional)
        except ApiError as error:
            if error.code is not ErrorCode.ILLEGAL_GENERATION:
                raise
            return shard.groups[request.group_id]

    patch.setattr(commit, "_checked", checked)


PLANTS = [
    answered_before_it_is_flushed,
    shown_before_it_is_flushed,
    a_refused_append_is_taken,
    the_first_offset_stays,
    any_generation_commits,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_fault_of_a_group_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(GroupMachine, settings=LIVES)
