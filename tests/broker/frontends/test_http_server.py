"""A broker's HTTP listener, with real clients: bounds beside others, TLS, an operation."""

import contextlib
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from headrace.testing.broker import BrokerThread
from tests.support.security.certificates import Authority

ACLS = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
METRICS = {"metrics.listener": "127.0.0.1:0"}
STARTED = """
import sys, urllib.request
from headrace.testing import BrokerThread

with BrokerThread({"metrics.listener": "127.0.0.1:0"}) as broker:
    print(sorted({"h11", "headrace.operations.describe_cluster"} & set(sys.modules)))
    urllib.request.urlopen(broker.server.http.url + "/healthz").read()
    print(sorted({"h11", "headrace.operations.describe_cluster"} & set(sys.modules)))
"""


def url_of(broker: BrokerThread, path: str) -> str:
    """Return the address of a path."""
    assert broker.server.http is not None
    return broker.server.http.url + path


def got(broker: BrokerThread, path: str, context: ssl.SSLContext | None = None) -> bytes:
    """Return what urllib gets."""
    with urllib.request.urlopen(url_of(broker, path), timeout=20, context=context) as answer:
        return bytes(answer.read())


def test_h11_is_imported_with_the_first_connection() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[]", "['h11']"]


def test_metrics_are_scraped_while_the_table_of_clients_is_full() -> None:
    settings = {**METRICS, "max.connections": "3", "max.connections.per.ip": "3"}
    with BrokerThread(settings) as broker:
        clients = [socket.create_connection(("127.0.0.1", broker.port), 10) for _ in range(3)]
        for client in clients:
            client.sendall(b"\0\0\0\x0b\0\x12\0\0\0\0\0\1\0\1x")  # ApiVersions v0
            assert client.recv(4)
        with (
            socket.create_connection(("127.0.0.1", broker.port), 10) as refused,
            contextlib.suppress(ConnectionError),
        ):
            assert refused.recv(4) == b""
        for _ in range(5):
            assert b"headrace_connections{" in got(broker, "/metrics")
        assert b'headrace_connections{listener="PLAINTEXT"} 3.0' in got(broker, "/metrics")
        for client in clients:
            client.close()


def test_clients_of_http_take_no_places_of_others() -> None:
    settings = {**METRICS, "max.connections": "1", "max.connections.per.ip": "1"}
    with BrokerThread(settings) as broker:
        assert broker.server.http is not None
        watching = [http.client.HTTPConnection(*broker.server.http.address) for _ in range(5)]
        for connection in watching:
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"
        with socket.create_connection(("127.0.0.1", broker.port), 10) as client:
            client.sendall(b"\0\0\0\x0b\0\x12\0\0\0\0\0\1\0\1x")
            assert len(client.recv(4)) == 4
        for connection in watching:
            connection.close()


def test_the_cluster_is_described_where_all_is_allowed() -> None:
    with BrokerThread(METRICS) as broker:
        found = json.loads(got(broker, "/api/v1/cluster"))
        assert found == {
            "cluster_id": broker.server.broker.cluster_id,
            "controller_id": 0,
            "brokers": [
                {
                    "id": 0,
                    "rack": None,
                    "endpoints": [
                        {"listener": "PLAINTEXT", "host": "127.0.0.1", "port": broker.port,
                         "protocol": "PLAINTEXT"}
                    ],
                }
            ],
        }  # fmt: skip


def test_an_operation_is_refused_where_acls_decide_and_audited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with BrokerThread({**METRICS, **ACLS}) as broker:
        with pytest.raises(urllib.error.HTTPError) as raised:
            got(broker, "/api/v1/cluster")
        assert raised.value.code == 403
        assert json.loads(raised.value.read())["error"] == "CLUSTER_AUTHORIZATION_FAILED"
        raised.value.close()
        assert got(broker, "/healthz") == b"ok\n"
    lines = [record.message for record in caplog.records if "refused principal=" in record.message]
    assert len(lines) == 1
    for word in ("User:ANONYMOUS", "metrics.listener", "DESCRIBE", "CLUSTER:kafka-cluster"):
        assert word in lines[0]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[BrokerThread]:
    """A broker that watches by TLS, where ACLs decide and duke may do everything."""
    prefix = "listener.name.metrics.ssl."
    settings = {
        **METRICS,
        **ACLS,
        f"{prefix}keystore.location": str(authority.sign().both),
        f"{prefix}truststore.location": str(authority.certificate),
        f"{prefix}client.auth": "requested",
        "super.users": "User:CN=duke",
    }
    with BrokerThread(settings) as broker:
        yield broker


def trusting(authority: Authority, name: str = "") -> ssl.SSLContext:
    """Return a client's context, with a certificate where it has a name."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if name:
        context.load_cert_chain(authority.sign(name, f"/CN={name}").both)
    return context


def test_metrics_are_scraped_by_tls(secured: BrokerThread, authority: Authority) -> None:
    assert url_of(secured, "").startswith("https://")
    assert b"headrace_connections{" in got(secured, "/metrics", trusting(authority))


def test_a_plain_client_at_the_tls_listener_is_told(secured: BrokerThread) -> None:
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(url_of(secured, "/").replace("https", "http"), timeout=10)
    assert raised.value.code == 400
    assert b"use https:// there" in raised.value.read()
    raised.value.close()


def test_a_certificate_names_the_caller_of_an_operation(
    secured: BrokerThread, authority: Authority
) -> None:
    found = json.loads(got(secured, "/api/v1/cluster", trusting(authority, "duke")))
    assert found["brokers"][0]["id"] == 0
    for name in ("", "other"):
        with pytest.raises(urllib.error.HTTPError) as raised:
            got(secured, "/api/v1/cluster", trusting(authority, name))
        assert raised.value.code == 403
        raised.value.close()


def test_kafkas_clients_are_told_of_brokers_without_permission(secured: BrokerThread) -> None:
    admin = AdminClient({"bootstrap.servers": secured.bootstrap})
    found = admin.describe_cluster().result(20)
    assert [node.id for node in found.nodes] == [0]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_reuses_a_connection_and_sees_a_refused_body(tmp_path: Path) -> None:
    with BrokerThread(METRICS) as broker:
        healthz = url_of(broker, "/healthz")
        done = subprocess.run(
            ["curl", "-sv", healthz, healthz], capture_output=True, text=True, timeout=30
        )
        assert done.stdout == "ok\nok\n"
        assert "Re-using existing connection" in done.stderr
        large = tmp_path / "large"
        large.write_bytes(bytes(300_000))
        body = ["--data-binary", f"@{large}", "-X", "GET"]
        done = subprocess.run(
            ["curl", "-s", "-o", "-", "-w", "%{http_code}", *body, healthz],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert done.stdout == "a request has no body here\n413"
