"""Which hosts are loopback: one rule for listeners, guest's logins and paths in error texts."""

from pathlib import Path

import pytest

from headrace.client.consumer.damage import DamagePlace, file_of
from headrace.client.transport.port import Address
from headrace.config.broker import load
from headrace.model.errors import ConfigError
from headrace.model.loopback import is_loopback

LOOPBACK = ("127.0.0.1", "127.255.255.254", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1",
            "::ffff:127.9.9.9", "::FFFF:7f00:1", "localhost", "LocalHost")  # fmt: skip
OTHER = ("", "0.0.0.0", "::", "128.0.0.1", "126.255.255.255", "::2", "::ffff:192.0.2.1",
         "::127.0.0.1", "::ffff:0.0.0.0", "localhost.example", "localhost.", "127.1", "loopback",
         "127.0.0.1.example", "fe80::1%lo")  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_hosts(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", OTHER)
def test_hosts_that_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", LOOPBACK)
def test_listener_on_loopback_needs_no_leave(host: str) -> None:
    assert load(f"listeners=PLAINTEXT://{f'[{host}]' if ':' in host else host}:9092\n")


def test_listener_on_another_mapped_address_needs_leave() -> None:
    with pytest.raises(ConfigError, match="open to other machines"):
        load("listeners=PLAINTEXT://[::ffff:192.0.2.1]:9092\n")


@pytest.mark.parametrize(
    ("host", "file"), [*((host, "00.log") for host in LOOPBACK), *((host, "") for host in OTHER)]
)
def test_damaged_file_is_named_if_the_broker_is_on_this_machine(
    tmp_path: Path, host: str, file: str
) -> None:
    for name in ("00.log", "10.log"):
        (tmp_path / name).touch()
    assert file_of(DamagePlace(1, Address(host, 9092), str(tmp_path)), 7) == str(tmp_path / file)
