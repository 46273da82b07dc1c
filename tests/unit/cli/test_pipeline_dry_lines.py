"""The text of a dry run: refused records that would end a run."""

import pytest

pytest.importorskip("pyspark")

from headrace.pipeline.commands.dry_lines import print_dry
from headrace.pipeline.dry.dry_run import DryRefusals, DryResult

REASON = "total: expected a string, got a number"


@pytest.mark.parametrize(("refused", "ends"), [(20, True), (11, True), (10, False), (1, False)])
def test_a_dry_run_warns_if_more_than_half_of_the_records_are_refused(
    capsys: pytest.CaptureFixture[str], refused: int, ends: bool
) -> None:
    found = (DryRefusals("sales", REASON, refused, "sales-0@0"),)
    print_dry(DryResult("shop", None, 100, {"sales": 20}, (), found, {"sales": refused}))
    lines = capsys.readouterr().out.splitlines()
    warnings = [line for line in lines if "exit code 11" in line]
    expected = (
        f"! sales: {refused} of 20 records refused: a run ends with exit code 11 if more than half"
        " of a topic's last 1,000 records are"
    )
    assert warnings == ([expected] if ends else [])
