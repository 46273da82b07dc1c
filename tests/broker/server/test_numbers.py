"""What a broker of a cluster shows at /metrics, and that the documents name nothing else."""

import re
import urllib.request
from pathlib import Path
from typing import Any

from headrace.frontends.http.exposition import render
from headrace.ports.store import SessionEvents
from headrace.server import metrics_sources
from headrace.server.assembly import Server
from headrace.server.cluster.store_session import StoreSession
from headrace.testing.broker import BrokerThread
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop
from tests.support.sim.amqp import serve_amqp

DOCS = Path(__file__).parents[3] / "docs"
NAMED = re.compile(r"`(headrace_[a-z_]+)`")


def scrape(server: Server) -> dict[str, float]:
    """Numbers without labels, and those with one, by name."""
    metrics_sources.register(
        server.broker, server.coordinators, server.table, server.cleaner, server.controller,
        server.cluster_links,
    )  # fmt: skip
    found = {}
    for line in render(server.metrics).decode().splitlines():
        name, _, number = line.rpartition(" ")
        if line.startswith("# TYPE "):  # there, whether or not anything has a label yet
            found[line.split()[2]] = 0.0
        if not line.startswith("#"):
            found[name] = float(number)
            found[re.sub(r"(_bucket|_sum|_count)?(\{.*)?$", "", name)] = float(number)
    return found


def scraped() -> dict[str, float]:
    """What a broker shows that is alone in its cluster."""
    loop = SimLoop(1)
    cluster = SimCluster(loop, 1)
    shown: dict[str, float] = {}
    serve_amqp(cluster)

    async def story() -> None:
        server = await cluster.start(1)
        server.metrics.store_requests.add(0.25)
        shown.update(scrape(server))
        await cluster.stop(1)

    loop.play(story())
    return shown


def test_every_metric_that_the_documents_name_is_shown() -> None:
    shown = scraped()
    listeners = "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0,ROCKETMQ://127.0.0.1:0"
    with BrokerThread({"metrics.listener": "127.0.0.1:0", "listeners": listeners}) as broker:
        host, port = broker.call(lambda server: server.http.address if server.http else ("", 0))
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as answer:
            types = re.findall(r"^# TYPE (\w+) ", answer.read().decode(), re.MULTILINE)
    pages = [page for page in DOCS.glob("*.md") if page.name != "testing.md"]  # names fixtures
    named = {name for page in pages for name in NAMED.findall(page.read_text())}
    assert len(named) > 15
    assert not named - shown.keys() - set(types)
    assert (shown["headrace_store_connected"], shown["headrace_controller_active"]) == (1, 1)
    assert shown["headrace_store_request_seconds_sum"] == 0.25


def test_a_session_is_connected_or_not_and_each_that_was_over_counts() -> None:
    events, told = SessionEvents(), list[str]()
    for word in ("lost", "expired", "reconnected"):
        setattr(events, word, lambda word=word: told.append(word))
    session: Any = StoreSession(events)
    seen = []
    for event in ("lost", "reconnected", "lost", "expired"):
        getattr(events, event)()
        seen.append((session.connected, session.expired))
    assert seen == [(False, 0), (True, 0), (False, 0), (True, 1)]
    assert told == ["lost", "reconnected", "lost", "expired"]
