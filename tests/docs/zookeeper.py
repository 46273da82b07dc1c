"""The ZooKeeper of a page, at the port that the page names."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.zookeeper import ZooKeeper

PORT = 2181


@contextmanager
def running(place: Path) -> Iterator[None]:
    """Run one server at 127.0.0.1:2181."""
    zookeeper = ZooKeeper(place)
    zookeeper.servers[0].client_port = PORT
    zookeeper.start()
    try:
        yield
    finally:
        zookeeper.kill()
