"""`spool_error`: errors of a spool that cannot be read or written."""

import errno
from pathlib import Path

import pytest

from headrace.spark.quarantine.record_file import spool_error

SPOOL = Path("/spool/flow/query")
SHARED = "driver and executors need the same writable directory as quarantineSpool"


def test_a_missing_file_may_be_that_of_a_run_that_a_newer_one_has_replaced() -> None:
    text = str(spool_error(SPOOL, FileNotFoundError(errno.ENOENT, "No such file")))
    assert text.endswith(f"{SHARED}, unless a newer run of the query has written this batch")


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "denied"), OSError("odd")])
def test_other_errors_do_not_speak_of_a_newer_run(error: OSError) -> None:
    assert str(spool_error(SPOOL, error)).endswith(SHARED)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_to_be_full(number: int) -> None:
    assert "no space is left for refused records" in str(spool_error(SPOOL, OSError(number, "")))
