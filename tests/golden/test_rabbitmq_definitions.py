"""Definitions that RabbitMQ 4.3 exported are read, and written as they were exported."""

import json
from typing import Any

import pytest

from headrace.management.definitions.document import DefinitionsDocument
from tests.outside.amqp.management.recordings import load


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    """The recorded answers, by step."""
    return load()


@pytest.mark.parametrize(("step", "vhost"), [("defs", None), ("defs.vhost", "gold")])
def test_each_exported_object_is_written_as_rabbitmq_wrote_it(
    golden: dict[str, Any], step: str, vhost: str | None
) -> None:
    exported = golden[step]["body"]
    document = DefinitionsDocument(json.dumps(exported, indent=2).encode(), vhost)
    for _ in document.check():
        pass
    arrays = {key for key, value in exported.items() if isinstance(value, list)}
    assert arrays <= {section.key for section in document.sections}
    of_vhost = {} if vhost is None else {"vhost": vhost}
    for section in document.sections:
        found = [each.value.json for step in document.objects(section) for each in step]
        assert found == [of_vhost | each for each in exported.get(section.key, [])]
    assert document.hashing_algorithm == "rabbit_password_hashing_sha256"
