"""Kafka's tools on brokers whose ACLs decide: ours and Apache Kafka 4.3.1, with the same users.

Compared as `make compat` compares the open ones, refusals included.

    python -m tests.outside.kafka_tools.on_guarded [--keep] [--raw] [acls] [users] [refused] …
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.config.authentication.jaas import PLAIN_MODULE, SCRAM_MODULE
from tests.outside.kafka_reads_our_files.brokers import Broker, Headrace, Kafka4
from tests.outside.kafka_reads_our_files.jvm import NoJvm
from tests.outside.kafka_tools.__main__ import SETTINGS, Verdicts, compare, sum_up
from tests.outside.kafka_tools.step import Side, archive
from tests.outside.kafka_tools.steps_guarded import SECTIONS, USERS
from tests.support.processes.process import free_port

_LISTENER = "listener.name.sasl_plaintext"
_USERS = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
GUARDED = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{_LISTENER}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {_USERS};",
    f"{_LISTENER}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    f"{_LISTENER}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
}
"""Whoever comes by PLAINTEXT is the broker itself, a super user; the tools come by SASL."""


def guarded(broker: Broker) -> Broker:
    """Have clients authenticate."""
    broker.settings |= GUARDED
    broker.listeners = f"SASL_PLAINTEXT://{broker.bootstrap},PLAINTEXT://127.0.0.1:{free_port()}"
    return broker


def write_clients(side: Side) -> None:
    """Write each user's settings to a file of his."""
    for name, password in {**USERS, "wrong": "not-the-password"}.items():
        user = "admin" if name == "wrong" else name
        write_client(side, name, "PLAIN", f'{PLAIN_MODULE} required username="{user}"', password)


def write_client(side: Side, name: str, mechanism: str, module: str, password: str) -> None:
    """Write one client's settings."""
    (side.place / f"{name}.properties").write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} password="{password}";\n'
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 where nothing differs that is not known to."""
    parser = argparse.ArgumentParser(prog="python -m tests.outside.kafka_tools.on_guarded")
    parser.add_argument("sections", nargs="*", help=f"{', '.join(SECTIONS)}; all without one")
    parser.add_argument("--keep", action="store_true", help="leave the directories there")
    parser.add_argument("--raw", action="store_true", help="show what the tools printed")
    given = parser.parse_args(arguments)
    if unknown := set(given.sections) - set(SECTIONS):
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    place = Path(tempfile.mkdtemp(prefix="headrace-guarded-tools-"))
    try:
        return _run(place, given.sections or list(SECTIONS), raw=given.raw)
    except NoJvm as missing:
        print(missing, file=sys.stderr)
        return 1
    finally:
        if given.keep:
            print(f"left: {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)


def _run(place: Path, sections: Sequence[str], *, raw: bool) -> int:
    verdicts = Verdicts()
    began = time.monotonic()
    ours = guarded(Headrace(place / "ours", place / "ours" / "log", broker_id=1))
    theirs = guarded(Kafka4(place / "kafka", place / "kafka" / "log"))
    with ours, theirs, ThreadPoolExecutor(2) as pool:
        flags = archive(theirs, place / "tools.jsa")
        sides = [Side(one, one.place / "tools", *flags) for one in (ours, theirs)]
        for side in sides:
            write_clients(side)
        try:
            for name in SECTIONS:
                if name not in sections and name != "furnishing":
                    continue
                print(f"{name}, after {time.monotonic() - began:.0f} s", flush=True)
                for step in SECTIONS[name]():
                    compare(step, sides, pool, verdicts, raw=raw)
        finally:
            for side in sides:
                side.close()
    sum_up(verdicts, time.monotonic() - began, "Kafka's tools on brokers with ACLs")
    return bool(verdicts.counts["DIFFERS"])


if __name__ == "__main__":
    sys.exit(main())
