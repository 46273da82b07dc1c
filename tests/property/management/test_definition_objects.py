"""Objects that are written as an export has them are read again as they were."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.management.definitions.document import DefinitionsDocument, Located
from headrace.management.definitions.objects import (
    SECTIONS,
    VHOST_SECTIONS,
    Binding,
    Exchange,
    GlobalParameter,
    Parameter,
    Permission,
    PolicyDefinition,
    Queue,
    TopicPermission,
    User,
    Vhost,
)
from tests.support.examples import examples

TEXTS = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
TABLES = st.dictionaries(TEXTS, VALUES, max_size=3)
LIMITS = st.dictionaries(TEXTS, st.integers(), max_size=2)
TAGS = st.lists(TEXTS, max_size=2)
FLAGS = st.booleans()
POLICIES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("pattern", "definition", "priority", "apply-to"), VALUES)
)
METADATA = st.fixed_dictionaries(
    {}, optional={"description": TEXTS, "tags": TAGS, "default_queue_type": TEXTS}
)
USERS = st.one_of(
    st.builds(User, TEXTS, TAGS.map(tuple), LIMITS, TEXTS, st.none() | TEXTS, st.none()),
    st.builds(User, TEXTS, TAGS.map(tuple), LIMITS, st.none(), st.none() | TEXTS, TEXTS),
)
OBJECTS: dict[str, st.SearchStrategy[Any]] = {
    "users": USERS,
    "vhosts": st.builds(Vhost, TEXTS, METADATA, st.none() | FLAGS, LIMITS),
    "permissions": st.builds(Permission, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS),
    "exchanges": st.builds(Exchange, TEXTS, TEXTS, TEXTS, FLAGS, FLAGS, FLAGS, TABLES),
    "topic_permissions": st.builds(TopicPermission, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS),
    "global_parameters": st.builds(GlobalParameter, TEXTS, VALUES),
    "policies": st.builds(PolicyDefinition, TEXTS, TEXTS, POLICIES),
    "parameters": st.builds(Parameter, TEXTS, TEXTS, TEXTS, VALUES),
    "queues": st.builds(Queue, TEXTS, TEXTS, FLAGS, FLAGS, TABLES),
    "bindings": st.builds(
        Binding, TEXTS, TEXTS, TEXTS, st.sampled_from(["queue", "exchange"]), TEXTS, TABLES
    ),
}


@pytest.mark.parametrize("key", OBJECTS)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_objects_survive_their_export(key: str, data: st.DataObject) -> None:
    objects = data.draw(st.lists(OBJECTS[key], max_size=3))
    body = json.dumps({key: [each.json for each in objects]}).encode()
    assert read(DefinitionsDocument(body))[key] == objects
    if key in [section.key for section in VHOST_SECTIONS]:
        of_one = [each._replace(vhost="v") for each in objects]
        assert read(DefinitionsDocument(body, "v"))[key] == of_one


def read(document: DefinitionsDocument) -> dict[str, list[Any]]:
    """Check a document and return the objects of each section."""
    for _ in document.check():
        pass
    found: dict[str, list[Located[Any]]] = {
        section.key: [each for step in document.objects(section) for each in step]
        for section in document.sections
    }
    assert {key: len(each) for key, each in found.items() if each} == document.counts
    return {key: [each.value for each in located] for key, located in found.items()}


def test_each_section_has_a_strategy() -> None:
    assert list(OBJECTS) == [section.key for section in SECTIONS]
