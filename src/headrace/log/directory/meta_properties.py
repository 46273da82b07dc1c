"""`meta.properties`: whose log directory this is."""

from typing import NamedTuple

from headrace.log import file_names, text_files
from headrace.log.text_files import read_file
from headrace.model.errors import ConfigError
from headrace.ports.disk import Disk


class Identity(NamedTuple):
    """What `meta.properties` says. Version 0 is a ZooKeeper-mode broker's, 1 a KRaft one's."""

    version: int = 0
    broker_id: int = -1
    cluster_id: str = ""
    directory_id: str | None = None

    @classmethod
    def claim(
        cls, disk: Disk, path: str, broker_id: int, cluster_id: str, *, accepted: bool = False
    ) -> "Identity":
        """Return the directory's identity, written if it has none; ConfigError if it is another's.

        An existing file is kept byte for byte, version 1 too. With `accepted` a directory of
        another cluster joins `cluster_id`, and its broker knows none of its logs there.
        """
        found = read_identity(disk, path)
        where = f"{path}/{file_names.META_PROPERTIES}"
        if found is None:
            disk.replace(where, text_files.write_meta_properties(broker_id, cluster_id))
            return cls(0, broker_id, cluster_id)
        if found.cluster_id != cluster_id and accepted:
            found = found._replace(cluster_id=cluster_id)
            # Removed first: with it a replica that this cluster assigns here and that has no log
            # would count as never created, and could be led empty.
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
    """Return what `meta.properties` of the log directory `path` says; None where there is none.

    ConfigError where it makes no sense. For the start: the broker's and the cluster's id come from
    here where the directory has been used before.
    """
    where = f"{path}/{file_names.META_PROPERTIES}"
    content = read_file(disk, where)
    if content is None:
        return None
    found = text_files.read_properties(content)
    try:
        version = int(found["version"])
        if version not in (0, 1):
            raise ConfigError(f"{where}: version {version} is not known, only 0 and 1 are")
        broker_id = int(found["broker.id" if version == 0 else "node.id"])
        return Identity(version, broker_id, found["cluster.id"], found.get("directory.id"))
    except KeyError as missing:
        raise ConfigError(
            f"{where}: {missing.args[0]} is missing; restore the file from a copy"
        ) from None
    except ValueError as wrong:
        raise ConfigError(f"{where}: {wrong}") from None
