"""Connections that must authenticate: what holds for them until they have."""

from contextlib import suppress

import pytest

from headrace.net import connection as connection_module
from tests.support.net.echo import World, on_loop, read_frame
from tests.support.net.net import framed, limits_with, until

pytestmark = pytest.mark.usefixtures("frequent_sweeps")


@pytest.mark.parametrize("known", [True, False])
def test_a_frame_that_is_long_for_a_stranger_is_taken_from_whoever_is_known(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "AUTHENTICATION_FRAME_BYTES_MAX", 1000)

    async def test(world: World) -> None:
        async with world.client() as (reader, writer):
            writer.write(framed(b"a"))
            assert await read_frame(reader) == b"a"
            world.sessions[0].connection.authenticated = known
            writer.write(framed(b"x" * 1000))
            assert await read_frame(reader) == b"x" * 1000
            writer.write(framed(b"x" * 1001))
            if known:
                assert await read_frame(reader) == b"x" * 1001
            else:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""

    on_loop(test)


def test_a_stranger_is_dropped_when_its_time_is_over_and_no_other() -> None:
    async def test(world: World) -> None:
        async with world.client() as (reader, writer), world.client() as (other, its):
            for one, sends in ((reader, writer), (other, its)):
                sends.write(framed(b"a"))
                assert await read_frame(one) == b"a"
            world.sessions[0].connection.authenticated = False
            await until(lambda: len(world.table) == 1)
            assert world.table.dropped == 1
            strangers = [one for one in world.sessions if not one.connection.authenticated]
            assert [one.gone for one in strangers] == [True]

    on_loop(test, limits_with(connection_authentication_ms=300))
