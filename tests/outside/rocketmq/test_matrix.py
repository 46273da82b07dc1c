"""The matrix of clients: each cell has a scenario, or a reason why it has none."""

from tests.outside.rocketmq.known import KNOWN, LACKING
from tests.outside.rocketmq.scenarios import PROGRAMS, ROWS, SCENARIOS


def test_each_client_plays_each_row_or_a_reason_says_why_not() -> None:
    cells = {(client, row) for client in PROGRAMS for row in ROWS}
    assert set(LACKING) <= cells
    assert {(scenario.client, scenario.topic) for scenario in SCENARIOS} == cells - set(LACKING)
    assert all(LACKING.values())


def test_each_known_difference_names_a_scenario_and_its_reason() -> None:
    named = {(scenario.client, scenario.claim) for scenario in SCENARIOS}
    for reasons in KNOWN.values():
        assert set(reasons) <= named
        assert all(reasons.values())
