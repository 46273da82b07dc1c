"""RocketMQ's Java clients and the programs that use them."""

import pytest

from tests.outside.rocketmq.jvm import compiled, has_maven, libraries
from tests.outside.rocketmq.scenarios import JAVA_SOURCES

CLIENTS = ("5.5.0", "4.9.7")


@pytest.fixture(scope="session", params=CLIENTS)
def classes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of a version of the client and of the programs."""
    if not has_maven():
        pytest.skip("needs Maven and a JDK")
    made = tmp_path_factory.mktemp(request.param)
    return compiled(made, libraries(request.param), *JAVA_SOURCES, "Operated.java")
