"""Names that loggers had before their modules moved."""

import importlib
import logging
from pathlib import Path

import pytest

from headrace.observe import logs
from headrace.observe.former_loggers import FORMER_LOGGERS

SOURCE = Path(__file__).parents[3] / "src"


@pytest.mark.parametrize("former", FORMER_LOGGERS)
def test_level_of_a_former_name_is_the_present_loggers(former: str) -> None:
    now = logging.getLogger(FORMER_LOGGERS[former])
    before = now.level
    try:
        logs.set_level(former, "TRACE")
        assert now.level == logs.LOGGER_LEVELS["TRACE"]
        assert logs.levels()[former] == logs.levels()[now.name] == "TRACE"
        logs.set_level(former, None)
        assert now.level == logging.NOTSET
    finally:
        now.setLevel(before)


def test_level_of_a_former_package_reaches_the_modules_below() -> None:
    module = logging.getLogger("headrace.queues.engine.dead_letter_publishing")
    package = logging.getLogger("headrace.queues")
    try:
        logs.set_level("headrace.coordination.queues", "ERROR")
        assert module.getEffectiveLevel() == logging.ERROR
        assert (
            logs.levels()["headrace.coordination.queues.engine.dead_letter_publishing"] == "ERROR"
        )
    finally:
        package.setLevel(logging.NOTSET)


def test_former_name_is_not_listed_before_its_logger_exists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FORMER_LOGGERS, "headrace.once", "headrace.not.imported")
    assert "headrace.once" not in logs.levels()


def test_former_names_are_sorted_and_none_is_a_present_module() -> None:
    assert list(FORMER_LOGGERS) == sorted(FORMER_LOGGERS)
    for former in FORMER_LOGGERS:
        path = SOURCE / former.replace(".", "/")
        assert not path.with_suffix(".py").exists()
        assert not (path / "__init__.py").exists()


def test_present_names_are_packages_or_modules_with_a_logger() -> None:
    for name in FORMER_LOGGERS.values():
        path = SOURCE / name.replace(".", "/")
        module = path.with_suffix(".py")
        assert (path / "__init__.py").exists() or "getLogger(__name__)" in module.read_text()


def test_levels_are_listed_in_order_with_root_last() -> None:
    importlib.import_module("headrace.queue_stores.memory.spill")
    names = list(logs.levels())
    assert names[:-1] == sorted(names[:-1])
    assert names[-1] == "root"
