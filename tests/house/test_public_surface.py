"""The public surface is as tests/golden/public-surface.txt has it, or an alias works."""

import pytest

from tests.support.public_surface import FILE, Surface, changes, collect, read, rendered
from tests.support.surface_aliases import works

RECORDED = read(FILE.read_text())
ADVICE = """
+ is new: document it, then record it with: python -m tests.support.public_surface --write
- is gone or changed: users depend on it. Keep the old name for one version and list
  `old line => new line` below `# aliases` in tests/golden/public-surface.txt; a name of a kind
  without aliases stays beside the new one. Only the next version removes it (--write --removals).
"""
ALIASES_THAT_WORK = [
    ("command headrace topics ls", "command headrace topic list"),
    ("command headrace acls rm", "command headrace acl delete"),
    ("flag headrace consume --until-end bool", "flag headrace consume -e bool"),
    ("flag headrace consume --brokers str | None", "flag headrace consume -b str | None"),
    ("python headrace.testing.BrokerThread(a)", "python headrace.testing.broker.BrokerThread()"),
    ("python headrace.arrow.open()", "python headrace.arrow.read.open_topic.open()"),
    ("config broker num.partitions int", "config broker num.partitions int"),
    ("config topic retention.ms long default", 'config topic retention.ms long default="7"'),
    ("logger headrace.log", "logger headrace.log.log"),
]
ALIASES_THAT_DO_NOT = [
    ("command headrace topic gone", "command headrace topic list"),
    ("command headrace topic create", "command headrace topic list"),
    ("flag headrace consume --gone bool", "flag headrace consume -e bool"),
    ("flag headrace consume --group str", "flag headrace consume -e bool"),
    ("python headrace.spark.gone(a)", "python headrace.spark.session(b)"),
    ("config broker gone.ms int", "config broker broker.id int"),
    ("config broker num.partitions int", "config broker broker.id int"),
    ("config topic gone.ms long default", 'config topic retention.ms long default="7"'),
    ("logger headrace.gone", "logger headrace.log.log"),
    ("command headrace topic list", "logger headrace.log.log"),
]


def test_public_surface_is_as_recorded() -> None:
    found = changes(RECORDED, collect())
    assert not found.added, f"\n{found}{ADVICE}"
    assert not found.removed, f"\n{found}{ADVICE}"


def test_surface_file_is_as_the_program_writes_it() -> None:
    assert rendered(RECORDED) == FILE.read_text()


def test_recorded_aliases_work() -> None:
    for old, new in RECORDED.aliases.items():
        assert old not in RECORDED.lines, f"{old} is no removal: it needs no alias"
        assert new in RECORDED.lines, f"{new} is not recorded"
        assert works(old, new), f"{old} does not work any more"


@pytest.mark.parametrize(("old", "new"), ALIASES_THAT_WORK)
def test_alias_proof_accepts_two_names_of_one_thing(old: str, new: str) -> None:
    assert works(old, new)


@pytest.mark.parametrize(("old", "new"), ALIASES_THAT_DO_NOT)
def test_alias_proof_refuses_names_that_do_not_work(old: str, new: str) -> None:
    assert not works(old, new)


def test_metric_cannot_have_an_alias() -> None:
    with pytest.raises(KeyError):
        works("metric headrace_a gauge labels=", "metric headrace_b gauge labels=")


def test_changed_line_is_an_addition_and_a_removal() -> None:
    recorded = Surface(frozenset({"exit 1 failed", "exit 2 usage"}), {})
    found = changes(recorded, {"exit 1 failed", "exit 3 usage"})
    assert str(found) == "+ exit 3 usage\n- exit 2 usage"
    aliased = Surface(recorded.lines, {"exit 2 usage": "exit 3 usage"})
    assert changes(aliased, {"exit 1 failed", "exit 3 usage"}).removed == frozenset()
