"""`headrace trace`: cases are listed and played; changes of a running cluster are told in words."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cli.main import run
from headrace.cli.trace import live as trace_live
from headrace.cli.trace.live import PartitionState, changes
from headrace.client.transport.port import CannotConnect
from headrace.model.nouns import TopicPartition
from headrace.testing.sim.textbook.cases import CASES


def test_all_cases_are_listed_with_what_they_show(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["trace", "--list"], ["trace"]):
        assert run(words) == 0
        head, *lines = capsys.readouterr().out.splitlines()
        assert head.split() == ["CASE", "SHOWS"]
        assert [line.split()[0] for line in lines] == list(CASES)
    assert run(["trace", "--list", "--json"]) == 0
    assert [case["case"] for case in json.loads(capsys.readouterr().out)] == list(CASES)


def test_a_case_is_shown_step_by_step_in_aligned_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["trace", "old-leader-truncates"]) == 0
    said = capsys.readouterr()
    title, head, *lines = said.out.splitlines()
    assert title.startswith("old-leader-truncates: an old leader cuts")
    assert head.split("  ")[0] == "SECONDS"
    at = head.index("WHAT HAPPENED")
    assert all(line[at - 1] == " " and line[at] != " " for line in lines)
    leaders = [line[head.index("LEADER") :].split()[0] for line in lines]
    assert (leaders[0], leaders[-1]) == ("A", "B")
    assert "A truncates its log from 3 to 2" in said.out
    assert said.err == "", "what the simulated brokers log is not shown"


def test_the_same_seed_shows_the_same_steps_and_another_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def shown(seed: int) -> str:
        assert run(["trace", "isr-shrink", "--seed", str(seed), "--json"]) == 0
        return capsys.readouterr().out

    assert shown(7) == shown(7) != shown(8)
    steps = json.loads(shown(7))["steps"]
    assert {tuple(step["isr"]) for step in steps} == {("A", "B", "C"), ("A", "B")}
    assert steps[0]["replicas"]["C"] == {"high_watermark": 0, "end_offset": 0}


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["isr"], 4, "there is no case isr; did you mean isr-shrink or all-isr-down?"),
        (["divergense"], 4, "there is no case divergense; did you mean divergence"),
        (["xyz"], 4, "there is no case xyz; see: headrace trace --list"),
        (["loss", "divergence"], 2, "one case at a time"),
        (["--follow"], 2, "--follow needs the topics"),
        (["--follow", "--list", "t"], 2, "--follow needs the topics"),
        (["--follow", "t", "--interval", "0"], 2, "--interval 0: must be more than 0"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    words: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["trace", *words]) == code
    said = capsys.readouterr().err
    assert said.startswith(f"headrace: {line}")
    assert len(said.splitlines()) == 1


WELL = PartitionState(1, 4, (1, 2, 3), 10, 10, {1: 0, 2: 0, 3: 0})


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (WELL._replace(high_watermark=12, log_end=13), ["HW moves by 2", "LEO moves by 3"]),
        (WELL._replace(isr=(1, 3)), ["ISR shrinks by 2"]),
        (WELL._replace(isr=(1, 3, 4)), ["ISR shrinks by 2", "ISR grows by 4"]),
        (WELL._replace(leader=2, epoch=5), ["2 becomes leader"]),
        (WELL._replace(epoch=5), ["1 becomes leader"]),
        (WELL._replace(leader=-1, epoch=5), ["nobody leads"]),
        (WELL._replace(log_end=8), ["LEO goes back by 2"]),
        (WELL._replace(lags={1: 0, 3: 0}), ["2 does not answer"]),
        (WELL, []),
    ],
)
def test_a_change_of_a_partition_is_told_in_words(after: PartitionState, words: list[str]) -> None:
    assert list(changes(WELL, after)) == words


def test_a_partition_is_one_line_with_what_nobody_told_left_open() -> None:
    assert WELL.as_words() == "leader 1  epoch 4  ISR 1,2,3  HW 10  LEO 10  lag 1=0,2=0,3=0"
    lost = PartitionState(-1, 5, (1,), None, None, {})
    assert lost.as_words() == "nobody leads  epoch 5  ISR 1  HW -  LEO -  lag -"


def test_a_broker_that_answers_again_is_told() -> None:
    silent = WELL._replace(lags={1: 0, 3: 0})
    assert list(changes(silent, WELL)) == ["2 answers again"]
    assert list(changes(None, WELL)) == []


def test_a_cluster_that_does_not_answer_is_told_and_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = TopicPartition("t", 0)
    lost = PartitionState(-1, 5, (1,), None, None, {})
    answers: list[Any] = [{partition: WELL}, CannotConnect("cannot connect"), {partition: lost}]

    def look(*_: object) -> dict[TopicPartition, PartitionState]:
        if not answers:
            raise KeyboardInterrupt
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        states: dict[TopicPartition, PartitionState] = found
        return states

    async def metadata() -> None:
        """Whatever there is: it is not looked at here."""

    monkeypatch.setattr(trace_live, "_look", look)
    monkeypatch.setattr(trace_live, "check_topic", lambda *_: None)
    nobody: Any = SimpleNamespace(metadata=metadata)
    with pytest.raises(KeyboardInterrupt):
        trace_live.follow_topics(nobody, ["t"], 0.0, json=True)
    shown = capsys.readouterr()
    assert "headrace: cannot connect" in shown.err
    first, second = map(json.loads, shown.out.splitlines())
    assert (first["topic"], first["partition"], first["leader"]) == ("t", 0, 1)
    assert (second["leader"], second["leader_epoch"]) == (None, 5)
