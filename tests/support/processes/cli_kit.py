"""Asking commands in tests: their words, and JSON held to its schema."""

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from headrace.cli.main import run as command
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.terminal.output import speak_json

if TYPE_CHECKING:
    from headrace.testing import BrokerThread

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
COMMON = json.loads((SCHEMAS / "common.json").read_text())
REGISTRY: Registry[Any] = Registry().with_resource(
    "common.json", DRAFT202012.create_resource(COMMON)
)
REMARK = {"$ref": "common.json#/$defs/remark"}

Says = Callable[..., tuple[int, str, str]]
Asked = Callable[..., tuple[int, Any]]


@pytest.fixture(autouse=True)
def remarks_are_text() -> None:
    """Begin as each command does, without the JSON of a test before it in this process."""
    speak_json(False)


@pytest.fixture(autouse=True, scope="module")
def clients_that_tests_forget() -> None:
    """Collect librdkafka's clients of earlier files: they would write to later tests' output."""
    gc.collect()


@pytest.fixture
def says(broker: "BrokerThread", capsys: pytest.CaptureFixture[str]) -> Says:
    """A function from a command's words to its exit code, answer and remarks."""
    return sayer(broker.bootstrap, capsys)


@pytest.fixture
def asked(says: Says) -> Asked:
    """A function from a command's words to its exit code and its JSON, held to the schema."""
    return asker(says)


def check(schema: Any, answer: object) -> None:
    """Hold an answer to a schema; a name that the schema does not have fails too."""
    Draft202012Validator(schema, registry=REGISTRY).validate(answer)


def sayer(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Says:
    """Make a function from a command's words to its exit code, answer and remarks."""

    def say(*words: str) -> tuple[int, str, str]:
        code = command([*words, "-b", bootstrap])
        said = capsys.readouterr()
        return code, said.out, said.err

    return say


def asker(says: Says) -> Asked:
    """Make a function from a verb (`config get`) and more words to its exit code and its JSON."""

    def ask(verb: str, *words: str) -> tuple[int, Any]:
        code, said, remarks = says(*verb.split(), *words, "--json")
        for line in remarks.splitlines():
            check(REMARK, json.loads(line))
        if not said:
            return code, json.loads(remarks.splitlines()[-1])
        answers = [json.loads(line) for line in said.splitlines()]
        schema = json.loads((SCHEMAS / f"{verb.replace(' ', '-')}.json").read_text())
        for answer in answers:
            check(schema, answer)
        return code, answers[0] if len(answers) == 1 else answers

    return ask


def send(bootstrap: str, topic: str, count: int, *, partition: int = 0, time: int = 1) -> None:
    """Produce `count` records; the first at `time`, each a millisecond after the one before."""
    with connect(bootstrap) as client:
        producer = Producer(client)

        async def story() -> None:
            for number in range(count):
                await producer.send(
                    topic, b"%d" % number, key=b"k", timestamp=time + number, partition=partition
                )
            await producer.flush()

        run(story())
