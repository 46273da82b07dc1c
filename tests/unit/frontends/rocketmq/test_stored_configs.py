"""Settings that are in force at once and stored later, as those of a group that a client uses."""

from pathlib import Path
from typing import Any

import pytest

from headrace.frontends.rocketmq.administration.stored_configs import RemotingConfigs
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.wire.rocketmq.group_configs import GroupConfig
from tests.unit.frontends.rocketmq.test_partition_numbers import play
from tests.unit.frontends.rocketmq.test_store_away import FailingStore

OURS = GroupConfig("CG", retry_policy={"type": "CUSTOMIZED"}, attributes={})
CHANGED = OURS._replace(retries_max=3)


async def loaded(store: Any) -> RemotingConfigs:
    configs = RemotingConfigs.of(store)
    await configs.groups.load()
    return configs


def test_noted_settings_are_in_force_at_once_and_stored_later(tmp_path: Path) -> None:
    async def story(store: EmbeddedStore) -> None:
        groups = (await loaded(store)).groups
        stores = groups.note("CG", OURS)
        assert groups.get("CG") == OURS
        assert len(groups) == 1
        assert (await loaded(store)).groups.get("CG") is None
        await stores
        assert (await loaded(store)).groups.get("CG") == OURS

    play(tmp_path, story)


@pytest.mark.parametrize("done", [True, False])
def test_noted_settings_that_cannot_be_stored_are_in_force_no_longer(
    tmp_path: Path, done: bool
) -> None:
    """So the next use of the group stores them."""

    async def story(store: EmbeddedStore) -> None:
        failing = FailingStore(store, at=3, done=done)
        groups = (await loaded(failing)).groups
        await groups.note("CG", OURS)
        assert failing.has_failed
        assert groups.get("CG") is None
        await groups.note("CG", OURS)
        assert groups.get("CG") == OURS
        assert (await loaded(store)).groups.get("CG") == OURS

    play(tmp_path, story)


def test_a_change_and_a_deletion_win_over_noted_settings(tmp_path: Path) -> None:
    async def story(store: EmbeddedStore) -> None:
        groups = (await loaded(store)).groups
        noted = groups.note("CG", OURS)
        await groups.put("CG", CHANGED)
        await noted
        assert groups.get("CG") == CHANGED
        assert (await loaded(store)).groups.get("CG") == CHANGED
        await groups.remove("CG")
        noted = groups.note("CG", OURS)
        await groups.remove("CG")
        await noted
        assert groups.get("CG") is None
        assert (await loaded(store)).groups.get("CG") is None

    play(tmp_path, story)
