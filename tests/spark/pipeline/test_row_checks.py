"""Checks of a flow: `expect`, `expect_or_drop`, `expect_or_fail` in tables and topics."""

import pytest

from tests.spark.kit import Topics
from tests.spark.pipeline.run_projects import Project, json_records
from tests.spark.pipeline.sinks import declare, ids_of

HEADER = '@hp.expect_or_fail("id is small", "{condition}")\n'


def test_rows_are_kept_dropped_and_counted(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """Spark evaluates each check; a condition that is null fails, unlike SQL's CHECK."""
    checks = (
        '@hp.expect("has a name", "name IS NOT NULL", at_least=0.5)\n'
        '@hp.expect("is early", "id < 2")\n'
        """@hp.expect_or_drop("is not n3", "name <> 'n3'")\n"""
        '@hp.expect_or_fail("most are small", "id < 5", at_least=0.8)\n'
    )
    declare(project, sink, topic, checks)
    topics.append(topic, 0, json_records(0, 5))
    nameless = json_records(5, 1)[0]._replace(value=b'{"id": 5}')
    topics.append(topic, 0, [nameless])
    assert project.run() == (0, "all records are processed")
    assert ids_of(project, sink, topic) == [0, 1, 2, 4], "null <> 'n3' is null, and fails"
    (batch,) = project.of("batch")
    assert batch["checks"] == {
        "rows": 6,
        "dropped": 2,
        "quarantined": 0,
        "failed": {"has a name": 1, "is early": 4, "is not n3": 2, "most are small": 1},
        "below": ["is early"],
        "examples": {
            "has a name": [f"{topic}-0@5"],
            "is early": [f"{topic}-0@{offset}" for offset in (2, 3, 4)],
            "is not n3": [f"{topic}-0@3", f"{topic}-0@5"],
            "most are small": [f"{topic}-0@5"],
        },
    }


def test_a_failed_check_leaves_nothing_of_the_batch_and_says_where(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """Rule 6: exit 11 names check, count and three offsets; again alike; changed: written once."""
    declare(project, sink, topic, HEADER.format(condition="id < 3"))
    topics.append(topic, 0, json_records(0, 2))
    assert project.run().code == 0
    topics.append(topic, 0, json_records(2, 6))
    for _ in range(2):
        ending = project.run()
        assert ending == (
            11,
            "rows: check 'id is small' failed: 5 of 6 rows of batch 1, first "
            f"{topic}-0@3, {topic}-0@4, {topic}-0@5",
        )
        assert ids_of(project, sink, topic) == [0, 1]
    declare(project, sink, topic, HEADER.format(condition="id < 30"))
    for _ in range(2):
        assert project.run().code == 0
        assert ids_of(project, sink, topic) == list(range(8))


def test_a_stricter_check_does_not_fail_a_batch_that_the_sink_has(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """A kill between the sink's commit and Spark's: the sink is asked before the check decides."""
    declare(project, sink, topic, HEADER.format(condition="id < 9"))
    topics.append(topic, 0, json_records(0, 4))
    assert project.run().code == 0
    target = "copies" if sink == "topic" else "rows"
    commits = project.storage / "_checkpoints" / target / "rows" / "0" / "commits"
    for name in ("0", ".0.crc"):
        (commits / name).unlink(missing_ok=True)
    declare(project, sink, topic, HEADER.format(condition="id < 2"))
    assert project.run() == (0, "all records are processed")
    assert ids_of(project, sink, topic) == [0, 1, 2, 3]
    topics.append(topic, 0, json_records(4, 1))
    assert project.run().code == 11, "the next batch is checked by the new condition"


@pytest.mark.parametrize("sink", ["delta"])
def test_a_check_that_raises_is_an_error_of_the_project(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """Rule 7: exit 1, not 11, and the text names the check."""
    checks = '@hp.expect_or_drop("name is a number", "CAST(name AS INT) > 0")\n'
    declare(project, sink, topic, checks + '@hp.expect("id", "id >= 0")\n')
    topics.append(topic, 0, json_records(0, 2))
    ending = project.run()
    assert ending.code == 1
    assert ending.text.startswith("rows: check 'name is a number' raised an error: [CAST_INVALID")
    assert f"batch 0 (up to {topic}-0@1)" in ending.text
    assert ids_of(project, sink, topic) == []
