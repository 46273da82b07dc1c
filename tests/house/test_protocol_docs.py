"""docs/protocol.md is what the code serves, and every API in it names a test that is there."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.registry import APIS, PEER_APIS
from headrace.wire.kafka.api import VERSIONS, ApiKey
from tools import gen_protocol_docs as docs

ROOT = Path(__file__).parents[2]


def test_the_table_in_docs_is_what_is_served() -> None:
    command = [sys.executable, str(ROOT / "tools" / "gen_protocol_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("api", [*APIS, *PEER_APIS], ids=lambda api: api.key.name)
def test_every_api_says_what_it_covers_and_names_a_test_that_exists(api: Api) -> None:
    assert docs.covers(api), "the module's docstring begins with `Name (key …): what it covers.`"
    file, _, name = api.proof.partition("::")
    assert file, "Api(…, proof='tests/….py::test_…') is missing"
    assert f"def {name}(" in (ROOT / file).read_text()


@pytest.mark.parametrize("key", VERSIONS, ids=lambda key: key.name)
def test_every_api_of_kafka_4_3_is_served_or_it_is_said_why_not(key: ApiKey) -> None:
    assert any(api.key == key for api in (*APIS, *PEER_APIS)) or docs.reason_of(key)


def test_an_api_that_comes_changes_the_table() -> None:
    before = docs.render(APIS)
    assert docs.render(APIS[1:]) != before
    assert docs.render([*APIS[1:], APIS[0]]) == before
