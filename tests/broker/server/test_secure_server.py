"""A locked broker while it runs: it looks after its certificates, whatever comes of it."""

import asyncio
import datetime
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.errors import ConfigError
from headrace.server.real_world import RealWorld
from headrace.server.secure import first_user
from headrace.server.secure.first_user import SecureServer
from headrace.server.secure.locked_config import prepare
from headrace.server.secure.preparation import Secured
from tests.support.net.net import until


def broken(invariant: Exception) -> None:
    """An invariant does not hold."""
    raise invariant


@pytest.fixture(autouse=True)
def mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_certificates_are_looked_at_each_day_and_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[datetime.datetime] = []

    def look(secured: Secured, now: datetime.datetime) -> None:
        looks.append(now)
        if len(looks) == 1:
            raise ConfigError("the disk is full")

    assert first_user.LOOK_SECONDS == 86_400
    monkeypatch.setattr(first_user, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(Secured, "look", look)
    given = {"log.dirs": str(tmp_path / "data"), "listeners": "SASL_SSL://127.0.0.1:0"}
    config, _, secured = prepare("", given)

    async def main() -> None:
        server = SecureServer(config, RealWorld(config), broken, secured)
        await server.start()
        assert secured.user_made
        await until(lambda: len(looks) >= 3)
        await server.stop()
        seen = len(looks)
        await asyncio.sleep(0.05)
        assert len(looks) == seen

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "certificates could not be renewed: the disk is full" in caplog.text


def test_a_renewed_certificate_is_shown_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "log.dirs": str(tmp_path / "data"),
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.reload.interval.ms": "100",
    }
    config, _, secured = prepare("", given)

    async def main() -> None:
        server = SecureServer(config, RealWorld(config), broken, secured)
        await server.start()
        assert server.doors.tls is not None
        (listener,) = server.doors.tls._listeners.values()
        shown = listener.context
        secured.look(secured.certificate_until - datetime.timedelta(days=1))
        await until(lambda: listener.context is not shown)
        await server.stop()

    asyncio.run(main())
