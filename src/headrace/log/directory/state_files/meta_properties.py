"""`meta.properties`: the broker id and cluster id of a log directory."""

from typing import NamedTuple

from headrace.log import file_names, text_files
from headrace.log.text_files import read_file
from headrace.model.errors import ConfigError
from headrace.ports.disk import Disk


class Identity(NamedTuple):
    """The content of `meta.properties`. Version 0 is a ZooKeeper-mode broker's, 1 a KRaft one's."""

    version: int = 0
    broker_id: int = -1
    cluster_id: str = ""
    directory_id: str | None = None

    @classmethod
    def claim(
        cls, disk: Disk, path: str, broker_id: int, cluster_id: str, *, accepted: bool = False
    ) -> "Identity":
        """Return the directory's identity, written if missing; ConfigError if it differs.

        An existing file is not changed. With `accepted` a directory of another cluster joins
        `cluster_id`, and its broker treats none of its logs as known.
        """
        found = read_identity(disk, path)
        where = f"{path}/{file_names.META_PROPERTIES}"
        if found is None:
            disk.replace(where, text_files.write_meta_properties(broker_id, cluster_id))
            return cls(0, broker_id, cluster_id)
        if found.cluster_id != cluster_id and accepted:
            found = found._replace(cluster_id=cluster_id)
            # Removed first: it would mark replicas that this cluster assigns here and that have no
            # log as never created, and an empty one could become the leader.
            if disk.exists(f"{path}/{file_names.DIRECTORIES}"):
                disk.remove(f"{path}/{file_names.DIRECTORIES}")
                disk.sync_directory(path)
            disk.replace(
                where, text_files.with_cluster_id(read_file(disk, where) or b"", cluster_id)
            )
        if found.cluster_id != cluster_id:
            raise ConfigError(
                f"log.dirs={path}: {file_names.META_PROPERTIES} says it belongs to cluster"
                f" {found.cluster_id!r}, not {cluster_id!r};"
                " name a directory of this cluster, or a new one"
            )
        if found.broker_id != broker_id:
            raise ConfigError(
                f"broker.id={broker_id}: {where} says it belongs to broker {found.broker_id};"
                f" set broker.id to that, or name another directory in log.dirs"
            )
        return found


def read_identity(disk: Disk, path: str) -> Identity | None:
    """Read `meta.properties` of log directory `path`; None if the file does not exist.

    ConfigError if it is invalid. A start takes the broker id and the cluster id from here.
    """
    where = f"{path}/{file_names.META_PROPERTIES}"
    content = read_file(disk, where)
    if content is None:
        return None
    found = text_files.read_properties(content)
    try:
        version = int(found["version"])
        if version not in (0, 1):
            raise ConfigError(f"{where}: unknown version {version}, expected 0 or 1")
        broker_id = int(found["broker.id" if version == 0 else "node.id"])
        return Identity(version, broker_id, found["cluster.id"], found.get("directory.id"))
    except KeyError as missing:
        raise ConfigError(
            f"{where}: {missing.args[0]} is missing; restore the file from a copy"
        ) from None
    except ValueError as wrong:
        raise ConfigError(f"{where}: {wrong}") from None
