"""The matrix of clients and topics: the scenarios that hold with each broker, side by side."""

from collections.abc import Mapping, Sequence

from tests.outside.matrix.scenario import Scenario

LEFT_OUT = "left out: "
"""How an outcome begins that says why a scenario could not be played here."""
Outcomes = Mapping[Scenario, str]
"""What is wrong with a scenario, nothing where it holds."""
Reasons = Mapping[tuple[str, str], str]
"""Why a broker differs, by client and claim of a scenario."""


def sum_up(
    chosen: Sequence[Scenario],
    brokers: Mapping[str, Outcomes],
    known: Mapping[str, Reasons],
    lacking: Reasons,
) -> int:
    """Print the matrix and its reasons; the exit status.

    `known` has the reasons by broker; `lacking` says, by client and topic, why a client has no
    scenario of a topic.
    """
    clients = list(dict.fromkeys(scenario.client for scenario in chosen))
    topics = list(dict.fromkeys(scenario.topic for scenario in chosen))
    wide = max(len(topic) for topic in topics) + 2
    cell_wide = 2 + max(9 if len(brokers) == 1 else 15, *(len(client) for client in clients))
    print(f"\n{' | '.join(brokers)}")
    print(" " * wide + "".join(f"{client:>{cell_wide}}" for client in clients))
    for topic in topics:
        cells = []
        for client in clients:
            asked = [one for one in chosen if (one.client, one.topic) == (client, topic)]
            found = [_cell(asked, outcomes) for outcomes in brokers.values()]
            cells.append(" | ".join(found) if asked else "-")
        print(f"{topic:{wide}}" + "".join(f"{cell:>{cell_wide}}" for cell in cells))
    for (client, topic), reason in lacking.items():
        if client in clients and topic in topics:
            print(f"-: {client}: {topic}: {reason}")
    # Each says what fails with it, whatever the one before said.
    return max(
        [_told(broker, outcomes, known.get(broker, {})) for broker, outcomes in brokers.items()]
    )


def _cell(asked: Sequence[Scenario], outcomes: Outcomes) -> str:
    found = [outcomes[scenario] for scenario in asked]
    if all(said.startswith(LEFT_OUT) for said in found):
        return "left out"
    if len(found) == 1:
        return "FAILED" if found[0] else "ok"
    return f"{found.count('')}/{len(found)}"


def _told(broker: str, outcomes: Outcomes, reasons: Reasons) -> int:
    """Print what does not hold with a broker; whether any of it is not known."""
    left = {one: said for one, said in outcomes.items() if said.startswith(LEFT_OUT)}
    for client, said in sorted({(scenario.client, said) for scenario, said in left.items()}):
        print(f"{broker}: {client}: {said}")
    failed = [one for one, said in outcomes.items() if said and one not in left]
    new = 0
    for scenario in failed:
        reason = reasons.get((scenario.client, scenario.claim))
        word = "FAILED" if reason is None else "known to differ"
        new += reason is None
        print(
            f"{broker}: {word}: {scenario.client}: {scenario.claim}: {reason or outcomes[scenario]}"
        )
    gone = [
        one for one, said in outcomes.items() if not said and (one.client, one.claim) in reasons
    ]
    for scenario in gone:
        print(f"{broker}: holds, and is known to differ: {scenario.client}: {scenario.claim}")
    hold = len(outcomes) - len(failed) - len(left)
    print(
        f"{broker}: {len(outcomes)} scenarios: {hold} hold, {new} fail,"
        f" {len(failed) - new} known to differ, {len(left)} left out"
    )
    return int(new > 0 or bool(gone))
