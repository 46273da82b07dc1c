"""The matrix of clients and topics: how many scenarios hold with each broker, side by side."""

from collections.abc import Mapping, Sequence

from tests.outside.amqp import known
from tests.outside.amqp.scenarios.scenario import Scenario

LEFT_OUT = "left out: "
"""How an outcome begins that says why a scenario could not be played here."""
Outcomes = Mapping[Scenario, str]
"""What is wrong with a scenario, nothing where it holds."""


def sum_up(chosen: Sequence[Scenario], brokers: Mapping[str, Outcomes]) -> int:
    """Print the matrix, what is left out and what is known to differ; the exit status."""
    clients = list(dict.fromkeys(scenario.client for scenario in chosen))
    topics = list(dict.fromkeys(scenario.topic for scenario in chosen))
    wide = max(len(topic) for topic in topics) + 2
    cell_wide = 11 if len(brokers) == 1 else 17
    print(f"\n{' | '.join(brokers)}")
    print(" " * wide + "".join(f"{client:>{cell_wide}}" for client in clients))
    for topic in topics:
        cells = []
        for client in clients:
            asked = [one for one in chosen if (one.client, one.topic) == (client, topic)]
            found = [_cell(asked, outcomes) for outcomes in brokers.values()]
            cells.append(" | ".join(found) if asked else "-")
        print(f"{topic:{wide}}" + "".join(f"{cell:>{cell_wide}}" for cell in cells))
    # Each says what fails with it, whatever the one before said.
    return max([_told(broker, outcomes) for broker, outcomes in brokers.items()])


def _cell(asked: Sequence[Scenario], outcomes: Outcomes) -> str:
    found = [outcomes[scenario] for scenario in asked]
    if all(said.startswith(LEFT_OUT) for said in found):
        return "left out"
    return f"{found.count('')}/{len(found)}"


def _told(broker: str, outcomes: Outcomes) -> int:
    """Print what does not hold with a broker; whether any of it is not known."""
    left = {one: said for one, said in outcomes.items() if said.startswith(LEFT_OUT)}
    for client, said in sorted({(scenario.client, said) for scenario, said in left.items()}):
        print(f"{broker}: {client}: {said}")
    failed = [one for one, said in outcomes.items() if said and one not in left]
    reasons = known.OURS if broker == "ours" else {}
    new = 0
    for scenario in failed:
        reason = reasons.get((scenario.client, scenario.claim))
        word = "FAILED" if reason is None else "known to differ"
        new += reason is None
        print(
            f"{broker}: {word}: {scenario.client}: {scenario.claim}: {reason or outcomes[scenario]}"
        )
    hold = len(outcomes) - len(failed) - len(left)
    print(
        f"{broker}: {len(outcomes)} scenarios: {hold} hold, {new} fail,"
        f" {len(failed) - new} known to differ, {len(left)} left out"
    )
    return int(new > 0)
