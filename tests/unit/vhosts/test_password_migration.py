"""Users with RabbitMQ's hash become users with credentials of SCRAM, or keep what they had."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headrace.cluster.settings.user_settings import Deletion, Upsertion
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.secret import Secret
from headrace.queues.permissions.definitions import UserDefinition
from headrace.security.sasl.scram import NUMBERS
from headrace.vhosts.users.password_migration import PasswordMigration
from tests.support.coordination.groups_kit import CountingRandom


class Settings:
    """What is written of users. `UserSettingsPort`, `AmqpSettingsPort`"""

    def __init__(self) -> None:
        self.user: UserDefinition | None = UserDefinition(password_hash="hash")
        self.written: list[Upsertion] = []
        self.deleted: list[Deletion] = []
        self.refused: ApiError | None = None
        self.raised: ApiError | None = None
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        itself: Any = self
        self.adoption = PasswordMigration(itself, itself, CountingRandom())

    async def alter(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> dict[str, ApiError | None]:
        await self.may_go_on.wait()
        self.deleted += deletions
        self.written += upsertions
        if self.raised is not None:
            raise self.raised
        return dict.fromkeys([change.user for change in upsertions], self.refused)

    async def change_user(
        self, name: str, change: Callable[[UserDefinition | None], UserDefinition | None]
    ) -> UserDefinition | None:
        self.user = change(self.user)
        return self.user

    async def log_in(self, times: int = 1) -> None:
        """Have the user log in, and wait for what follows."""
        for _ in range(times):
            self.adoption.begin("bob", Secret("test12"))
        await self.ended()

    async def ended(self) -> None:
        """Wait until nothing is under way."""
        await asyncio.gather(*self.adoption._under_way.values(), return_exceptions=True)


def played(play: Callable[[Settings], Any]) -> Settings:
    async def run() -> Settings:
        here = Settings()
        await play(here)
        return here

    return asyncio.run(asyncio.wait_for(run(), 10))


def test_a_user_gets_a_credential_of_each_mechanism_with_a_long_salt_and_then_loses_the_hash() -> (
    None
):
    here = played(lambda here: here.log_in())
    assert [each.mechanism for each in here.written] == list(NUMBERS)
    assert {len(each.salt) for each in here.written} == {32}
    assert len({each.salt for each in here.written}) == len(NUMBERS)
    assert here.user == UserDefinition(password_hash="")
    assert here.deleted == []


def test_who_logs_in_several_times_at_once_is_adopted_once_and_may_be_again_later() -> None:
    async def play(here: Settings) -> None:
        await here.log_in(times=3)
        assert len(here.written) == len(NUMBERS)
        await here.log_in()

    assert len(played(play).written) == 2 * len(NUMBERS)


@pytest.mark.parametrize("raised", [False, True])
def test_what_cannot_be_written_leaves_the_hash_for_another_login(
    raised: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(here: Settings) -> None:
        why = ApiError(ErrorCode.REQUEST_TIMED_OUT)
        here.raised, here.refused = (why, None) if raised else (None, why)
        await here.log_in()

    here = played(play)
    assert here.user == UserDefinition(password_hash="hash")
    assert len(here.written) == 1
    assert "user 'bob': RabbitMQ's password hash could not be replaced" in caplog.text


def test_a_user_who_was_deleted_meanwhile_is_left_without_credentials() -> None:
    async def play(here: Settings) -> None:
        here.user = None
        await here.log_in()

    here = played(play)
    assert here.user is None
    assert here.deleted == [Deletion("bob", number) for number in NUMBERS]


def test_a_broker_that_stops_waits_for_no_adoption() -> None:
    async def play(here: Settings) -> None:
        here.may_go_on.clear()
        here.adoption.begin("bob", Secret("test12"))
        await asyncio.sleep(0)
        here.adoption.stop()
        await here.ended()

    here = played(play)
    assert (here.written, here.user) == ([], UserDefinition(password_hash="hash"))
