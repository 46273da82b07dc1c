"""What `headrace log export` says is to be done next."""

from pathlib import Path

import pytest

from headrace.cli.log.transfer import TransferOptions, _tell_export
from headrace.log import file_names


@pytest.mark.parametrize(
    ("bootstrap", "of_a_kafka", "into"),
    [(None, False, False), (None, True, False), ("h:1", True, False), ("h:1", False, True)],
)
def test_directories_go_into_a_broker_that_leads_them_or_are_one_to_start_on(
    bootstrap: str | None,
    of_a_kafka: bool,
    into: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if of_a_kafka:
        (tmp_path / file_names.META_PROPERTIES).write_text("")
    _tell_export(tmp_path, {}, TransferOptions(bootstrap=bootstrap))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"0 partitions are in {tmp_path}. Next steps:"
    steps = (
        [
            "  stop the Kafka broker that leads these partitions, move the directories of",
            f"  {tmp_path} into its log.dirs in place of its empty ones, and start it again",
        ]
        if into
        else ["  start the Kafka broker on it; topics need replication factor 1 until then"]
    )
    assert lines[1:-1] == steps
    assert lines[-1].startswith("  topic settings are not in a log directory")
