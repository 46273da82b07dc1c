"""The shipped log is what its manifest says: as long, as damaged, and of as much event time."""

import json
from pathlib import Path

import pytest

from examples.access_log import archive
from examples.access_log.pipeline.access_line import parse_timed
from headrace.pipeline import Unreadable

MANIFEST = json.loads((archive.HERE / "manifest.json").read_text())


@pytest.fixture(scope="module")
def shipped() -> archive.Archive:
    return archive.load()


def test_the_log_holds_at_least_200_000_lines_over_at_least_30_minutes(
    shipped: archive.Archive,
) -> None:
    assert len(shipped.lines) == MANIFEST["lines"] >= 200_000
    assert shipped.seconds >= 30 * 60


def test_exactly_the_lines_damaged_by_hand_are_refused(shipped: archive.Archive) -> None:
    refused = []
    for number, line in enumerate(shipped.lines, start=1):
        try:
            parse_timed(line)
        except Unreadable:
            refused.append(number)
    assert refused == MANIFEST["damaged_lines"]
    assert len(refused) == shipped.damaged


def test_every_client_address_is_one_of_the_documentation_ranges(shipped: archive.Archive) -> None:
    damaged = set(MANIFEST["damaged_lines"])
    clients = {
        line.split(b" ", 1)[0].rpartition(b".")[0]
        for number, line in enumerate(shipped.lines, start=1)
        if number not in damaged
    }
    assert clients == {b"192.0.2", b"198.51.100", b"203.0.113"}


def test_a_log_that_is_not_the_manifests_is_refused(tmp_path: Path) -> None:
    (tmp_path / "access.log.xz").write_bytes((archive.HERE / "access.log.xz").read_bytes())
    (tmp_path / "manifest.json").write_text(json.dumps(MANIFEST | {"sha256": "0" * 64}))
    with pytest.raises(ValueError, match="not the log its manifest describes"):
        archive.load(tmp_path)
