"""Kafka's own tools with tokens, against our broker: `python -m tests.outside.kafka_tools.tokens`.

`kafka-delegation-tokens.sh` makes, describes, renews and expires a token; `kafka-topics.sh` is let
in by it (ScramLoginModule, tokenauth), and by a token of OAUTHBEARER that it reads out of a file.
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.config.authentication.jaas import OAUTHBEARER_MODULE, SCRAM_MODULE
from headrace.testing.broker import BrokerThread
from tests.outside.kafka_tools.tools import Tools
from tests.support.security.sasl_kit import PASSWORD, USER, add_scram_users, guarded
from tests.support.security.token_kit import claims, jwks, listener_settings, signer

TOOL = "org.apache.kafka.tools."
SECONDS_MAX = 120.0
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ONE = signer("RS256")


def main() -> int:
    """Run all; the exit status: 0 where each did what it should."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "keys.json").write_bytes(jwks(ONE))
        (place / "token").write_text(ONE.token(claims(time.time())))
        os.environ["JAVA_TOOL_OPTIONS"] = f"-D{ALLOWED}=file://{place}/token"
        settings = {
            "delegation.token.secret.key": "of all brokers",
            **listener_settings(place / "keys.json"),
            "listener.name.sasl.sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-256,SCRAM-SHA-512",
        }
        tools = Tools()
        try:
            with guarded(**settings) as broker:
                add_scram_users(broker)
                failed = 0
                for what, problem in _steps(tools, broker, place):
                    print(f"{what:44} {problem or 'ok'}", flush=True)
                    failed += bool(problem)
        finally:
            tools.close()
    return 1 if failed else 0


def _steps(tools: Tools, broker: BrokerThread, place: Path) -> Iterator[tuple[str, str]]:
    """Yield what was done, and what was wrong with it."""
    scram = f'{SCRAM_MODULE} required username="{{}}" password="{{}}"{{}};'
    alice = _config(place, "alice", "SCRAM-SHA-256", scram.format(USER, PASSWORD, ""))

    def run(tool: str, config: Path, *words: str) -> tuple[int, str]:
        found = tools.run(
            [TOOL + tool, "--bootstrap-server", broker.bootstrap, "--command-config", str(config),
             *words],
            SECONDS_MAX,
        )  # fmt: skip
        return (-1, "did not end") if found is None else (found[0], found[1] + found[2])

    def tokens(*words: str) -> tuple[int, str]:
        return run("DelegationTokenCommand", alice, *words)

    code, said = tokens(
        "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    row = re.search(r"^(\S+)\s+(\S+==)\s+User:alice", said, re.MULTILINE)
    yield "delegation-tokens --create", "" if row and not code else said
    if row is None:
        return
    token_id, hmac = row.groups()
    code, said = tokens("--describe", "--owner-principal", f"User:{USER}")
    yield "delegation-tokens --describe", "" if token_id in said and not code else said
    code, said = tokens("--renew", "--renew-time-period", "-1", "--hmac", hmac)
    yield "delegation-tokens --renew", "" if not code else said
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        line = scram.format(token_id, hmac, ' tokenauth="true"')
        bearer = _config(place, f"bearer-{mechanism}", mechanism, line)
        code, said = run("TopicCommand", bearer, "--list")
        yield f"topics --list, by the token, {mechanism}", "" if not code else said
    code, said = run("DelegationTokenCommand", bearer, "--describe")
    refused = "DelegationToken" in said and "not allowed" in said
    yield "delegation-tokens by a token is refused", "" if code and refused else said
    code, said = tokens("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    yield "delegation-tokens --expire", "" if not code else said
    code, said = run("TopicCommand", bearer, "--list")
    yield "topics --list, by the expired token", "" if "invalid credentials" in said else said
    code, said = tokens("--renew", "--renew-time-period", "-1", "--hmac", hmac)
    yield "delegation-tokens --renew of none", "" if "not found" in said.lower() else said
    config = _config(place, "oauth", "OAUTHBEARER", f"{OAUTHBEARER_MODULE} required;")
    with config.open("a") as more:
        more.write(f"sasl.oauthbearer.token.endpoint.url=file://{place}/token\n")
        more.write(
            "sasl.login.callback.handler.class="
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        )
    code, said = run("TopicCommand", config, "--list")
    yield "topics --list, by OAUTHBEARER", "" if not code else said


def _config(place: Path, name: str, mechanism: str, line: str) -> Path:
    file = place / f"{name}.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={line}\n"
    )
    return file


if __name__ == "__main__":
    sys.exit(main())
