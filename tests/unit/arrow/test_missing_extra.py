"""headrace.arrow without what the `arrow` extra installs."""

import sys

import pytest

import headrace.arrow
import headrace.arrow.read
from headrace.config.installing import install_command


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget `open_topic`, so that it is imported once more."""
    monkeypatch.delitem(sys.modules, "headrace.arrow.read.open_topic", raising=False)
    monkeypatch.delattr(headrace.arrow.read, "open_topic", raising=False)


@pytest.mark.usefixtures("unread")
def test_open_names_the_command_that_installs_the_missing_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError) as refused:
        _ = headrace.arrow.open
    command = install_command("pyarrow", "numba", "numpy")
    assert str(refused.value) == "pyarrow is missing: " + command


@pytest.mark.usefixtures("unread")
def test_other_import_errors_of_open_are_raised_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "headrace.arrow.read.parallel", None)
    with pytest.raises(ImportError, match=r"headrace\.arrow\.read\.parallel"):
        _ = headrace.arrow.open
