"""Opening and loading of `log.dirs` at a start: failed directories are fenced while one works."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

from headrace.config.broker import BrokerConfig
from headrace.config.log_config import LogConfig
from headrace.log.directory import reserve
from headrace.log.directory.failed_at_start import failed_at_start, give_up
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.periods import Periods
from headrace.log.flusher import Strategy
from headrace.model.errors import ConfigError
from headrace.model.nouns import TopicPartition
from headrace.ports.world import World
from headrace.posix.awaiting import called_back


class Owner(NamedTuple):
    """The ids of the broker and cluster that own the log directories."""

    broker_id: int
    cluster_id: str


def open_all(
    config: BrokerConfig, world: World, owner: Owner, strategy: Strategy, opened: list[LogDirectory]
) -> None:
    """Open the directories of `log.dirs` and append them to `opened`, failed ones too. Blocks.

    A failed directory is fenced from the beginning. ConfigError: all have failed, one belongs to
    another broker or cluster, or another process holds its lock.
    """
    periods = Periods.of(config)
    failed: dict[str, OSError] = {}
    for path in config.log_dirs:
        parts = world.disk, world.clock, world.random, path
        try:
            reserve.release(world.disk, path)
            directory = LogDirectory.open(
                *parts,
                broker_id=owner.broker_id,
                cluster_id=owner.cluster_id,
                accepted=config.accept_cluster_id == owner.cluster_id,
                periods=periods,
                strategy=strategy,
            )
        except OSError as error:
            failed[path] = error
        else:
            opened.append(directory)
    if len(failed) == len(config.log_dirs):  # nothing starts, so nothing is fenced and logged
        raise _refusal({path: error.strerror or str(error) for path, error in failed.items()})
    for at, path in enumerate(config.log_dirs):
        if path in failed:
            parts = world.disk, world.clock, world.random, path
            fenced = failed_at_start(*parts, periods=periods, strategy=strategy, error=failed[path])
            opened.insert(at, fenced)


async def load_all(
    directories: Collection[LogDirectory],
    config_of: Callable[[TopicPartition], LogConfig],
    parallel: int,
) -> None:
    """Load the logs of all directories; fence one whose disk fails. ConfigError: all have failed.

    `parallel`: threads per directory.
    """
    for directory in directories:
        if directory.fenced:
            continue
        try:
            await called_back(partial(directory.load, config_of, parallel=parallel))
        except OSError as error:
            give_up(directory, error)
    check_any(directories)


def check_any(directories: Collection[LogDirectory]) -> None:
    """Raise ConfigError if all directories have failed, with the reason of each."""
    failures = {each.path: str(each.failure) for each in directories if each.failure is not None}
    if len(failures) == len(directories):
        raise _refusal({path: why.removeprefix(f"{path}: ") for path, why in failures.items()})


def _refusal(reasons: Mapping[str, str]) -> ConfigError:
    return ConfigError(
        "log.dirs=" + "; ".join(f"{path}: {reason.lower()}" for path, reason in reasons.items())
    )
