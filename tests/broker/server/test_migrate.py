"""What a migration asks of the directories, and which starts are refused before and after it."""

import asyncio
from pathlib import Path

import pytest

from headrace.cli.cluster import migrate as cluster_migrate
from headrace.cli.main import run
from headrace.cluster.store import znodes
from headrace.config.broker import BrokerConfig, load
from headrace.log import file_names
from headrace.model.errors import ConfigError
from headrace.ports.store import Create, Delete, SessionEvents, SessionLost, Set, Store
from headrace.posix.disk import RealDisk
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.queues.model.stored_model import QueueRecord
from headrace.queues.model.stored_records import encode_record, record_key
from headrace.server import identity
from headrace.server.cluster import migrate, store_migration
from headrace.testing.broker import BrokerThread
from headrace.testing.sim.ensemble import Ensemble, EnsembleSession
from headrace.vhosts.declarations import takeover
from tests.support.queues.restarts import SETTINGS

CONNECT = "nowhere:1/orders"


def configured(*directories: Path, connect: str | None = CONNECT, broker_id: int = -1) -> (
    BrokerConfig
):  # fmt: skip
    flags = {"log.dirs": ",".join(map(str, directories)), "broker.id": str(broker_id)}
    return load(flags=flags if connect is None else {**flags, "zookeeper.connect": connect})[0]


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """The directory of a broker that has run and stopped."""
    with BrokerThread(directory=str(tmp_path / "log")) as broker:
        broker.create_topics("t", partitions=2)
    return tmp_path / "log"


def end(*_: object) -> None:
    raise SessionLost("the story ends it")


def migrated(
    config: BrokerConfig,
    monkeypatch: pytest.MonkeyPatch,
    dry_run: bool = False,
    times: int = 1,
    cut_at: str = "",
) -> tuple[migrate.Migrated, dict[str, bytes]]:
    """What came of migrations into one store, and what that holds; one ends at `cut_at` before."""

    async def story() -> tuple[migrate.Migrated, dict[str, bytes]]:
        target = Ensemble(1)

        def opened(*_: object, **__: object) -> Store:
            return target.session()

        monkeypatch.setattr(migrate, "open_zookeeper", opened)
        if cut_at:
            with monkeypatch.context() as ended:
                ended.setattr(migrate if cut_at == "_leave" else store_migration, cut_at, end)
                with pytest.raises(SessionLost):
                    await migrate.migrate(config, RealDisk(None))
        for _ in range(times):
            done = await migrate.migrate(config, RealDisk(None), dry_run=dry_run)
        session: EnsembleSession = target.session("", SessionEvents())
        return done, await store_migration.read_tree(session)

    return asyncio.run(story())


def kept(directory: Path, name: str = file_names.METADATA) -> dict[str, bytes]:
    """What the directory's own store holds."""

    async def story() -> dict[str, bytes]:
        store = EmbeddedStore(str(directory / name))
        try:
            return await store_migration.read_tree(store)
        finally:
            await store.close()

    return asyncio.run(story())


@pytest.mark.parametrize("cut_at", ["", "bring", "_leave", "end"])
def test_the_metadata_are_brought_and_the_store_is_left_aside(
    used: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_at: str
) -> None:
    (tmp_path / "other").mkdir()
    config = configured(used, tmp_path / "other")
    before = kept(used)
    done, there = migrated(config, monkeypatch, cut_at=cut_at)
    assert there == before == done.nodes
    assert there[znodes.topic_path("t")]
    assert not (used / file_names.METADATA).exists()
    assert kept(used, file_names.METADATA_LEFT) == before
    for directory in (used, tmp_path / "other"):
        note = (directory / file_names.MIGRATED).read_text()
        assert note == f"zookeeper.connect={CONNECT}\n"
        with pytest.raises(ConfigError, match=f"start it with --zookeeper {CONNECT}"):
            identity.in_directories(configured(directory, connect=None), RealDisk(None))
    assert identity.in_directories(config, RealDisk(None))[0] == 0


def test_nodes_of_an_earlier_version_are_taken_over_before_a_migration(
    used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = QueueRecord("q", False, {})
    path = f"{takeover.DECLARATIONS}/{record_key('/', record).hex()}"

    async def write() -> None:
        store = EmbeddedStore(str(used / file_names.METADATA))
        await store.create(path, encode_record("/", record), parents=True)
        await store.close()

    asyncio.run(write())
    with pytest.raises(ConfigError, match="has nodes of AMQP below /headrace-amqp/declarations"):
        migrated(configured(used), monkeypatch)
    BrokerThread(SETTINGS, directory=str(used)).start().stop()
    done, there = migrated(configured(used), monkeypatch)
    assert there == done.nodes
    assert there[znodes.topic_path("__amqp.declarations")]
    assert path not in there


def test_a_second_call_finds_it_done(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, _ = migrated(configured(used), monkeypatch, times=2)
    assert done.operations == ()


def test_a_dry_run_changes_nothing(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, there = migrated(configured(used), monkeypatch, dry_run=True, times=2)
    assert there == {}
    assert [operation.path for operation in done.operations] == sorted(done.nodes)
    assert (used / file_names.METADATA).exists()
    assert not (used / file_names.MIGRATED).exists()


def test_metadata_that_went_elsewhere_are_not_brought_again(
    used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrated(configured(used), monkeypatch)
    with pytest.raises(ConfigError, match=f"migrated to the ZooKeeper at {CONNECT}, and other:2"):
        migrated(configured(used, connect="other:2"), monkeypatch)


def test_with_zookeeper_no_broker_starts_on_metadata_of_its_own(used: Path) -> None:
    with pytest.raises(ConfigError, match="bring them there first, by headrace cluster migrate"):
        identity.in_directories(configured(used), RealDisk(None))


def test_a_broker_that_runs_is_not_migrated(tmp_path: Path) -> None:
    with (
        BrokerThread(directory=str(tmp_path)),
        pytest.raises(ConfigError, match="its broker runs: stop it first"),
    ):
        asyncio.run(migrate.migrate(configured(tmp_path), RealDisk(None)))


def test_directories_that_are_no_single_brokers_are_refused(used: Path, tmp_path: Path) -> None:
    def refused(config: BrokerConfig, said: str) -> None:
        with pytest.raises(ConfigError, match=said):
            asyncio.run(migrate.migrate(config, RealDisk(None)))

    empty = tmp_path / "empty"
    refused(configured(empty), "no broker of headrace serve has kept its metadata there")
    empty.mkdir()
    refused(configured(empty), "no broker of headrace serve has kept its metadata there")
    assert list(empty.iterdir()) == []
    refused(configured(used, tmp_path / "not there"), "not there; name the directories it has")
    refused(configured(used, broker_id=7), "the log directories belong to broker 0")
    identity_file = used / file_names.META_PROPERTIES
    known = identity_file.read_text()
    (empty / file_names.META_PROPERTIES).write_text(known.replace("broker.id=0", "broker.id=1"))
    refused(configured(used, empty), "not of one broker")
    cluster = next(line for line in known.splitlines() if line.startswith("cluster.id="))
    identity_file.write_text(known.replace(cluster, "cluster.id=another"))
    refused(configured(used), "not of cluster another")


def test_the_zookeeper_must_be_named(used: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "migrate", "--data", str(used)]) == 2
    assert "pass the ZooKeeper: --zookeeper host:port/chroot" in capsys.readouterr().err


def test_what_would_be_written_is_printed_without_passwords(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster_migrate._show(
        [
            Delete("/gone"),
            Create("/config/users/u", b"secret"),
            Create("/config/brokers/0", b"secret"),
            Create("/config/brokers", b""),
            Create("/config/topics/t", b"{}"),
            Set("/controller_epoch", b"3"),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "delete /gone",
        "create /config/users/u (not shown)",
        "create /config/brokers/0 (not shown)",
        "create /config/brokers",
        "create /config/topics/t {}",
        "set /controller_epoch 3",
    ]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_prints_each_znode_and_a_migration_how_to_start(
    used: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dry_run: bool
) -> None:
    done, _ = migrated(configured(used), monkeypatch, dry_run=True)
    assert done.operations

    async def made(*_: object, **asked: object) -> migrate.Migrated:
        assert asked == {"dry_run": dry_run}
        return done

    monkeypatch.setattr(migrate, "migrate", made)
    flags = ["--dry-run"] if dry_run else []
    command = ["cluster", "migrate", "--data", str(used), "--zookeeper", CONNECT, *flags]
    assert run(command) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    written = f"{len(done.operations)} znodes"
    if dry_run:
        assert [line.split()[:2] for line in lines] == [
            ["create", operation.path] for operation in done.operations
        ]
        assert f"1 topic, 2 partitions; {written} would be written to {CONNECT}" in shown.err
    else:
        assert f"1 topic, 2 partitions: in ZooKeeper at {CONNECT} ({written} written)" in lines[0]
        assert lines[1] == (
            f"start it with: headrace serve --zookeeper {CONNECT}, and its other settings as before"
        )
