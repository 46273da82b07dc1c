"""Tables at the demo's end."""

import pytest

from examples.access_log.report import REASONS, refused_table


@pytest.mark.parametrize("fields", [0, 1, REASONS, REASONS + 1, 3 * REASONS])
def test_rows_of_the_quarantine_table_add_up(fields: int) -> None:
    reasons = [(f"no field {number} at byte {at}", number + 1) for number in range(fields)
               for at in (1, 2)]  # fmt: skip
    table = refused_table(reasons)
    shown = [int(str(cell).replace(",", "")) for cell in table.columns[1].cells]
    assert sum(shown) == sum(count for _, count in reasons)
    assert len(shown) <= REASONS + 1
