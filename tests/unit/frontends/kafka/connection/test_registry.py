"""The table of APIs: every row says a range of versions that its codec has."""

import pytest

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.registry import APIS
from headrace.wire.kafka.api import VERSIONS


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.key.name)
def test_an_apis_versions_are_a_range_of_those_that_can_be_read(api: Api) -> None:
    lowest, highest = VERSIONS[api.key]
    assert lowest <= api.min_version <= api.max_version <= highest


def test_no_api_is_served_twice() -> None:
    assert len({api.key for api in APIS}) == len(APIS)
