"""Keys and versions of Kafka 4.3, key by key: their names, and what is served."""

import pytest
from kio.schema.index import api_key_map, schema_name_map

from headrace.wire.kafka import api
from headrace.wire.kafka.api import ApiKey

ENDED = {4: "leader_and_isr", 5: "stop_replica", 6: "update_metadata", 7: "controlled_shutdown"}
"""With Kafka 4.0."""


def test_every_key_has_kafkas_name_and_is_served_in_its_versions_and_no_others() -> None:
    ours = {
        int(key): name.lower()
        for name, key in ApiKey.__members__.items()
        if key < api.OWN_KEYS_FROM
    }
    assert ours == dict(api_key_map) | ENDED
    for key, name in api_key_map.items():
        known = sorted(schema_name_map[name])
        served = [version for version in range(-2, 30) if api.is_served(key, version)]
        assert served == known, name
        assert not api.is_flexible(key, -1), name
    assert not any(api.is_served(key, 0) for key in (*ENDED, -1, 93, 1000))


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [(0, 8, 1, 0), (0, 9, 2, 1), (18, 2, 1, 0), (18, 3, 2, 0), (18, 4, 2, 0), (17, 1, 1, 0)],
)
def test_headers_have_tags_from_the_flexible_version_on_but_the_answer_to_api_versions_has_none(
    key: int, version: int, request_header: int, response_header: int
) -> None:
    assert api.request_header_version(key, version) == request_header
    assert api.response_header_version(key, version) == response_header
