"""What every test needs, and `--reverse`."""

# A broker in this process warms its codecs on a thread, and kio imports hypothesis where it is
# installed: both threads at once would meet a half imported module.
import asyncio
import gc
import logging
import signal
from collections.abc import Iterator

import hypothesis
import pytest

from tests.support.examples import examples
from tests.support.tiers import is_long, is_slow

# How long an example takes says more of what else the machine does.
hypothesis.settings.register_profile("untimed", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("untimed")

# A suite that was started in the background ignores Ctrl-C, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--reverse`, one of the orders that `make test-orders` runs."""
    parser.addoption(
        "--reverse",
        action="store_true",
        help="run the last test first (with -p no:randomly: file order turned round)",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, and exempt what was collected from it.

    Modules and tests live to the end; to walk them again and again took half of the collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what `tests.support.tiers` lists as slow or long, before `-m` chooses."""
    if is_slow(item.nodeid):
        item.add_marker(pytest.mark.slow)
    if is_long(item.nodeid):
        item.add_marker(pytest.mark.long)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Turn the order round, whoever made it."""
    if config.getoption("reverse"):
        items.reverse()


@pytest.fixture(autouse=True)
def root_logger_is_restored() -> Iterator[None]:
    """Undo what `observe.logs.set_up` does, which a start in this process calls."""
    root = logging.getLogger()
    level, raises = root.level, logging.raiseExceptions
    yield
    root.setLevel(level)
    logging.raiseExceptions = raises
    for handler in root.handlers[:]:
        if type(handler.formatter).__module__ == "headrace.observe.logs":
            root.removeHandler(handler)


@pytest.fixture
def nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have followers copy nothing: what is to be seen before they are in sync stays to be seen."""
    from headrace.replication.source import Source

    async def silent(self: Source) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(Source, "converse", silent)
