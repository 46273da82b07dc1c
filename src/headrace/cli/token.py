"""`headrace token`: delegation tokens, which authenticate clients without a password for a time."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from headrace.client.admin.tokens import (
    AT_ONCE_MS,
    Token,
    create_token,
    describe_tokens,
    expire_token,
    renew_token,
)
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.config.authentication.jaas import SCRAM_MODULE
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError
from headrace.terminal.output import print_list, tell

app = App(name="token", help="Create, list, renew and expire delegation tokens.")

HOUR_MS = 3_600_000
HOURS_MAX = 100 * 366 * 24

Hours = Annotated[
    float | None, Parameter(name="--hours", help="For how long; as long as allowed by default.")
]


@app.command
def create(
    file: Path,
    *,
    owner: str | None = None,
    renewer: tuple[str, ...] = (),
    hours: Hours = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Create a token, and write what its bearer's client needs to a new FILE, for its owner only.

    For example: headrace token create job.properties --renewer scheduler --hours 12
    """
    lifetime_ms = _milliseconds(hours)
    with cluster.client() as client:
        # The file is opened before the token is created: a token that cannot be stored is useless.
        opened = _new(file)
        try:
            token = run(create_token(client, owner, renewer, lifetime_ms))
        except BaseException:
            os.close(opened)
            file.unlink(missing_ok=True)
            raise
        with os.fdopen(opened, "w", encoding="utf-8") as writing:
            writing.write(_settings(token))
    until = _time(token.expires_ms)
    text = f"created {token.token_id} of {token.owner}, until {until}, in {file}"
    tell(text, {**_as_json(token), "file": str(file)}, json=json)


@app.command(name="list", alias=["ls", "describe"])
def list_(
    *,
    owner: str | None = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """List the tokens that you own, may renew or may see, of all or of one OWNER.

    For example: headrace token list --owner alice
    """
    with cluster.client() as client:
        tokens = run(describe_tokens(client, owner))
    print_list(
        [_as_json(token) for token in tokens],
        ["TOKEN", "OWNER", "RENEWERS", "EXPIRES", "LAST EXPIRY"],
        (
            [
                token.token_id,
                token.owner,
                ", ".join(token.renewers),
                _time(token.expires_ms),
                _time(token.max_ms),
            ]
            for token in tokens
        ),
        none="there are no tokens",
        json=json,
    )


@app.command
def renew(
    token: str,
    *,
    hours: Hours = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Renew a token, by its id: it holds longer, but not beyond its last expiry.

    For example: headrace token renew 1rZxMDjYQ1yzbJsqX0IP4g
    """
    period_ms = _milliseconds(hours)
    with cluster.client() as client:
        ends_ms = run(renew_token(client, _find(client, token), period_ms))
    _tell("renewed", token, ends_ms, json=json)


@app.command(alias=["delete", "rm"])
def expire(
    token: str,
    *,
    hours: Annotated[float | None, Parameter(help="In how long; at once by default.")] = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Have a token end, by its id; connections that are open stay so until its former end.

    For example: headrace token expire 1rZxMDjYQ1yzbJsqX0IP4g
    """
    period_ms = AT_ONCE_MS if hours is None else _milliseconds(hours)
    with cluster.client() as client:
        ends_ms = run(expire_token(client, _find(client, token), period_ms))
    _tell("expired", token, ends_ms, json=json)


def _milliseconds(hours: float | None) -> int:
    if hours is None:
        return -1
    if not 0 < hours <= HOURS_MAX:
        raise UsageError(f"--hours {hours:g}: must be more than 0 and at most {HOURS_MAX}")
    return max(1, round(hours * HOUR_MS))


def _new(file: Path) -> int:
    """Open a new file that only its owner can read. Raises UsageError."""
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UsageError(f"{file}: {(error.strerror or 'cannot be written').lower()}") from None


def _settings(token: Token) -> str:
    return (
        f"# Delegation token of {token.owner}; add security.protocol, bootstrap.servers and ssl.*\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="{token.token_id}"'
        f' password="{token.hmac.reveal()}" tokenauth="true";\n'
    )


def _find(client: Client, token_id: str) -> Token:
    for token in run(describe_tokens(client)):
        if token.token_id == token_id:
            return token
    raise CommandError(
        f"there is no token {token_id} that you may see; see: headrace token list", EXIT_NOT_FOUND
    )


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _tell(verb: str, token_id: str, ends_ms: int, *, json: bool) -> None:
    text = f"{verb} {token_id}, until {_time(ends_ms)}"
    tell(text, {"token": token_id, "expires_ms": ends_ms}, json=json)


def _as_json(token: Token) -> dict[str, object]:
    return {
        "token": token.token_id,
        "owner": token.owner,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
    }
