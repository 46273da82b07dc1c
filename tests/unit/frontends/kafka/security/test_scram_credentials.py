"""AlterUserScramCredentials and DescribeUserScramCredentials: kept in the store, told to nobody."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.frontends.kafka.security import (
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from headrace.model.secret import Secret
from headrace.security.sasl import scram
from headrace.security.sasl.sasl import Mechanism
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import VERSIONS
from tests.support.admin import ask, codes, nested, tell
from tests.support.net.served import served
from tests.support.processes.broker import Room, play, room

DESCRIBE, ALTER = served(describe_user_scram_credentials), served(alter_user_scram_credentials)
SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
SALT = b"some salt"


def new(user: str, number: int = 1, *, iterations: int = 4096, **fields: Any) -> Any:
    salted = scram.salted(scram.NUMBERS.get(number, SHA_256), Secret("wonder"), SALT, 4096)
    return nested(
        ALTER, 0, "ScramCredentialUpsertion",
        **{"name": user, "mechanism": number, "iterations": iterations, "salt": SALT,
           "salted_password": salted, **fields},
    )  # fmt: skip


def gone(user: str, number: int = 1) -> Any:
    return nested(ALTER, 0, "ScramCredentialDeletion", name=user, mechanism=number)


async def alter(here: Room, *, deletions: Any = (), upsertions: Any = ()) -> dict[str, str]:
    answer = await ask(here, ALTER, 0, deletions=tuple(deletions), upsertions=tuple(upsertions))
    return dict(zip([one.user for one in answer.results], codes(answer.results), strict=True))


async def described(here: Room, *users: str) -> dict[str, Any]:
    wanted = tuple(nested(DESCRIBE, 0, "UserName", name=user) for user in users) or None
    answer = await ask(here, DESCRIBE, 0, users=wanted)
    assert codes([answer]) == ["NONE"]
    return {
        one.user: codes([one])[0] if one.error_code else
        {info.mechanism: info.iterations for info in one.credential_infos}
        for one in answer.results
    }  # fmt: skip


def test_the_versions_are_kafkas() -> None:
    assert VERSIONS[DESCRIBE.key] == VERSIONS[ALTER.key] == (0, 0)


def test_credentials_are_set_described_deleted_and_kept(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            assert await described(here) == {}
            assert await alter(here, upsertions=[new("alice"), new("bö b/c", 2)]) == {
                "alice": "NONE", "bö b/c": "NONE",
            }  # fmt: skip
            assert await alter(here, upsertions=[new("alice", 2, iterations=16384)]) == {
                "alice": "NONE"
            }
        async with room(tmp_path, disk) as here:  # after a restart
            assert await described(here) == {"alice": {1: 4096, 2: 16384}, "bö b/c": {2: 4096}}
            assert await described(here, "alice") == {"alice": {1: 4096, 2: 16384}}
            kept = here.broker.users.of("alice")[SHA_256]
            assert kept == scram.make_credential(SHA_256, Secret("wonder"), SALT, 4096)
            assert await alter(here, deletions=[gone("alice"), gone("bö b/c", 2)]) == {
                "alice": "NONE", "bö b/c": "NONE",
            }  # fmt: skip
            assert await described(here) == {"alice": {2: 16384}}
            assert here.broker.users.names() == ["alice"]

    play(story())


def test_what_is_asked_for_wrongly_is_refused_user_by_user(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await alter(here, upsertions=[new("kept")])
        outcome = await alter(
            here,
            deletions=[gone("absent"), gone("kept", 2), gone("both"), gone("strange", 7)],
            upsertions=[
                new("twice"), new("twice", 2), new("both"), new("few", iterations=4095),
                new("many", iterations=16385), new("unknown", 3), new(""), new("fine"),
                new("saltless", salt=b""), new("bare", salted_password=b""),
            ],
        )  # fmt: skip
        assert outcome == {
            "absent": "RESOURCE_NOT_FOUND",
            "kept": "RESOURCE_NOT_FOUND",
            "both": "DUPLICATE_RESOURCE",
            "strange": "UNSUPPORTED_SASL_MECHANISM",
            "twice": "DUPLICATE_RESOURCE",
            "few": "UNACCEPTABLE_CREDENTIAL",
            "many": "UNACCEPTABLE_CREDENTIAL",
            "unknown": "UNSUPPORTED_SASL_MECHANISM",
            "": "UNACCEPTABLE_CREDENTIAL",
            "fine": "NONE",
            "saltless": "UNACCEPTABLE_CREDENTIAL",
            "bare": "UNACCEPTABLE_CREDENTIAL",
        }
        assert await described(here) == {"fine": {1: 4096}, "kept": {1: 4096}}
        assert await described(here, "fine", "eve", "kept", "kept") == {
            "fine": {1: 4096}, "eve": "RESOURCE_NOT_FOUND", "kept": "DUPLICATE_RESOURCE",
        }  # fmt: skip

    tell(tmp_path, story)


def test_credentials_lie_beside_quotas_as_kafka_keeps_them(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        path = "/config/users/alice"
        payload = {"version": 1, "config": {"producer_byte_rate": "7.0"}}
        await here.store.create(path, json.dumps(payload).encode())
        await here.controller.settings.load_again()
        await alter(here, upsertions=[new("alice")])
        config = json.loads((await here.store.get(path)).value)["config"]
        assert config.keys() == {"producer_byte_rate", "SCRAM-SHA-256"}
        assert config["SCRAM-SHA-256"].startswith("salt=")
        assert "wonder" not in str(config)
        await alter(here, deletions=[gone("alice")])
        config = json.loads((await here.store.get(path)).value)["config"]
        assert config == {"producer_byte_rate": "7.0"}

    tell(tmp_path, story)


def test_what_others_change_in_the_store_is_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(here: Room) -> None:
        users, settings = here.broker.users, here.controller.settings
        kept = scram.make_credential(SHA_512, Secret("wonder"), SALT, 5000)

        async def write(node: str, **config: str) -> None:
            payload = json.dumps({"version": 1, "config": config}).encode()
            path = f"/config/users/{node}"
            if (await here.store.get_all([path]))[0] is None:
                await here.store.create(path, payload)
            else:
                await here.store.set(path, payload)

        good = {"SCRAM-SHA-512": scram.encode_credential(kept)}
        await write("b%C3%B6b", **good)
        await settings.read("users/b%C3%B6b")
        assert users.of("böb") == {SHA_512: kept}
        await write("%3Cdefault%3E", **good)  # a user of that name, and the default beside him
        await write("<default>", **good)
        await write("broken", **{"SCRAM-SHA-256": "salt=c2VjcmV0,what", **good})
        await settings.load_again()
        assert users.names() == ["<default>", "broken", "böb"]
        assert users.of("broken") == {SHA_512: kept}
        assert "user 'broken': SCRAM-SHA-256 in the store is no credential" in caplog.text
        assert "c2VjcmV0" not in caplog.text
        await write("b%C3%B6b")
        await here.store.delete("/config/users/broken")
        await settings.read("users/b%C3%B6b")
        assert users.of("böb") == {}
        await settings.load_again()
        assert users.names() == ["<default>"]

    tell(tmp_path, story)
