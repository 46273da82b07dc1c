"""SCRAM users (KIP-554). A password never leaves the client: only its salted hash is sent."""

from secrets import token_bytes
from typing import Any, NamedTuple

from headrace.client.calls.call import ColdCall, Maker, check
from headrace.client.client import Client
from headrace.model.errors import ErrorCode
from headrace.model.secret import Secret
from headrace.security.sasl.sasl import Mechanism
from headrace.security.sasl.scram import NUMBERS, salted
from headrace.wire.kafka.api import ApiKey

_NUMBER_OF = {mechanism: number for number, mechanism in NUMBERS.items()}
SALT_BYTES = 24


class User(NamedTuple):
    """A SCRAM user: iterations of each credential, by mechanism."""

    name: str
    credentials: dict[str, int]


async def describe_users(client: Client) -> list[User]:
    """Return all users that have SCRAM credentials."""

    def parse(response: Any) -> list[User]:  # noqa: ANN401 - kio's entity
        check(response.error_code, response.error_message)
        return [
            User(
                str(result.user),
                {
                    str(NUMBERS.get(int(info.mechanism), info.mechanism)): int(info.iterations)
                    for info in result.credential_infos
                },
            )
            for result in response.results
            if ErrorCode(int(result.error_code)) is ErrorCode.NONE
        ]

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        return maker.request(users=None)

    return await client.ask_any(ColdCall(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, build, parse))


async def set_credential(
    client: Client, user: str, mechanism: Mechanism, password: Secret, iterations: int
) -> None:
    """Create or replace a user's SCRAM credential from `password`, salted here. Raises ApiError."""
    salt = token_bytes(SALT_BYTES)

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        upsertion = maker.part(
            "ScramCredentialUpsertion",
            name=user,
            mechanism=_NUMBER_OF[mechanism],
            iterations=iterations,
            salt=salt,
            salted_password=salted(mechanism, password, salt, iterations),
        )
        return maker.request(deletions=(), upsertions=(upsertion,))

    await client.ask_controller(
        ColdCall(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, build, _check_results)
    )


async def delete_credential(client: Client, user: str, mechanism: Mechanism) -> None:
    """Delete a user's credential of one SCRAM mechanism. ApiError RESOURCE_NOT_FOUND."""

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        deletion = maker.part("ScramCredentialDeletion", name=user, mechanism=_NUMBER_OF[mechanism])
        return maker.request(deletions=(deletion,), upsertions=())

    await client.ask_controller(
        ColdCall(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, build, _check_results)
    )


def _check_results(response: Any) -> None:  # noqa: ANN401 - kio's entity
    for result in response.results:
        check(result.error_code, result.error_message)
