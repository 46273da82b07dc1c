"""Declarations of a pipeline: names, checks, parsers, the project's settings and its files."""

import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from pyspark import pipelines as dp
from pyspark.pipelines.graph_element_registry import graph_element_registration_context

from headrace import pipeline as hp
from headrace.pipeline.declarations import Check, Outcome, TopicSource, checks_of, sources
from headrace.pipeline.graph import Graph
from headrace.pipeline.load import loaded
from headrace.pipeline.project import load_project


class Inner(NamedTuple):
    name: str | None
    size: int


class Line(NamedTuple):
    text: str
    number: int | None
    share: float
    flag: bool
    raw: bytes | None
    day: date
    at: datetime
    amount: Annotated[Decimal, "DECIMAL(12,2)"] | None
    items: list[Inner]
    by_name: dict[str, int]


class Recorded:
    """Sources that record their calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def topic(self, source: TopicSource) -> Any:
        self.calls.append(source)
        return source

    def read(self, name: str) -> Any:
        self.calls.append(name)
        return name


def test_checks_keep_the_order_of_their_decorators() -> None:
    @hp.expect("a", "x > 0", at_least=0.9)
    @hp.expect_or_drop("b", "y > 0")
    @hp.expect_or_fail("c", "z > 0", at_least=0.5)
    @hp.expect_or_quarantine("d", "w > 0")
    def rows() -> None:
        pass

    assert checks_of(rows) == (
        Check("a", "x > 0", Outcome.KEEP, 0.9),
        Check("b", "y > 0", Outcome.DROP),
        Check("c", "z > 0", Outcome.FAIL, 0.5),
        Check("d", "w > 0", Outcome.QUARANTINE),
    )


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan")])
def test_shares_outside_of_0_to_1_are_refused(share: float) -> None:
    with pytest.raises(hp.DeclarationError, match="check 'a': at_least is"):
        hp.expect("a", "x > 0", at_least=share)


def test_a_check_above_the_table_decorator_is_refused() -> None:
    with pytest.raises(hp.DeclarationError, match=r"put @hp.expect… below @dp\.table"):
        hp.expect("a", "x > 0")(None)  # type: ignore[type-var]


def test_a_check_is_declared_once_per_function() -> None:
    with pytest.raises(hp.DeclarationError, match="check 'a' is declared twice"):

        @hp.expect("a", "x > 0")
        @hp.expect_or_drop("a", "y > 0")
        def rows() -> None:
            pass


def test_a_named_tuple_gives_the_columns_of_a_parser() -> None:
    made = hp.parser(lambda value: (value,), Line)
    assert made.columns == (
        "`text` STRING NOT NULL, `number` BIGINT, `share` DOUBLE NOT NULL, "
        "`flag` BOOLEAN NOT NULL, `raw` BINARY, `day` DATE NOT NULL, `at` TIMESTAMP NOT NULL, "
        "`amount` DECIMAL(12,2), "
        "`items` ARRAY<STRUCT<`name`: STRING, `size`: BIGINT NOT NULL>> NOT NULL, "
        "`by_name` MAP<STRING, BIGINT> NOT NULL"
    )


def test_an_annotation_without_a_type_of_sql_is_refused_by_name() -> None:
    class Price(NamedTuple):
        amount: Decimal

    with pytest.raises(TypeError, match=r"Price\.amount is .*DECIMAL\(12,2\)"):
        hp.parser(lambda value: (value,), Price)
    with pytest.raises(TypeError, match="is no NamedTuple"):
        hp.parser(lambda value: (value,), int)


def test_topic_and_read_ask_the_run_for_rows() -> None:
    given = Recorded()
    parser = hp.parser(lambda value: (value,), "a STRING")
    with sources(given):
        hp.topic("t", "id BIGINT", event_time="at", watermark="1 minute", heartbeats=True)
        hp.topic("t", parser, meta="key")
        hp.read("view")
    assert given.calls == [
        TopicSource("t", "id BIGINT", None, "at", "1 minute", True, True),
        TopicSource("t", "a STRING", parser, None, None, False, "key"),
        "view",
    ]
    with pytest.raises(hp.DeclarationError, match=r"hp\.topic is called outside of a run"):
        hp.topic("t", "id BIGINT")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"watermark": "1 minute"}, "watermark needs event_time"),
        ({"heartbeats": True}, "heartbeats need a watermark"),
        ({"meta": "all"}, "meta is 'all'"),
    ],
)
def test_options_of_a_topic_that_do_not_fit_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with sources(Recorded()), pytest.raises(hp.DeclarationError, match=message):
        hp.topic("t", "id BIGINT", **options)


def test_spark_decorators_declare_tables_views_sinks_and_flows() -> None:
    graph = Graph()
    table: Any = dp.table  # Its annotations lack `format`.
    with graph_element_registration_context(graph):

        @table(format="delta", partition_cols=["day(at)"])  # type: ignore[untyped-decorator]
        @hp.expect("a", "x > 0")
        def orders() -> Any:
            pass

        @dp.temporary_view
        def placed() -> Any:
            pass

        dp.create_sink("alerts", "headrace", {"topic": "t"})

        @dp.append_flow(target="alerts")
        def large() -> Any:
            pass

        dp.create_streaming_table("customers", format="parquet")
    assert [*graph.tables] == ["orders", "customers"]
    assert ([*graph.views], [*graph.sinks]) == (["placed"], ["alerts"])
    assert [(flow.name, flow.target) for flow in graph.flows] == [
        ("orders", "orders"), ("placed", "placed"), ("large", "alerts"),
    ]  # fmt: skip
    assert [check.name for check in graph.flows[0].checks] == ["a"]
    assert graph.places["orders"].file == __file__
    lines = [graph.places[name].line or 0 for name in graph.places]
    assert lines == sorted(lines)
    assert lines[0] > 0


def project(place: Path, settings: str = 'name = "shop"', **files: str) -> Path:
    (place / "pipeline.toml").write_text(settings)
    for name, text in files.items():
        path = place / "transformations" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"from pyspark import pipelines as dp\n{text}")
    return place


TABLE = "@dp.table\ndef {}():\n    pass\n"


def test_files_of_a_project_are_imported_in_order(tmp_path: Path) -> None:
    (tmp_path / "shop_types.py").write_text("NAME = 'from_a_module'\n")
    text = f"from shop_types import NAME\n{TABLE.format('b')}\ndp.create_streaming_table(NAME)\n"
    directory = project(tmp_path, b=text, a=TABLE.format("a"))
    with loaded(load_project(directory)) as found:
        assert [*found.graph.tables] == ["a", "b", "from_a_module"]
        assert found.findings == []
        assert found.graph.places["b"].line == 3
    with loaded(load_project(directory)) as again:
        assert [*again.graph.tables] == ["a", "b", "from_a_module"]
    assert not [*directory.rglob("__pycache__")]


def test_a_file_that_another_one_imports_is_imported_once(tmp_path: Path) -> None:
    text = "import transformations.b\n" + TABLE.format("a")
    directory = project(tmp_path, a=text, b=TABLE.format("b"))
    path, modules = list(sys.path), set(sys.modules)
    with loaded(load_project(directory)) as found:
        assert found.findings == []
        assert [*found.graph.tables] == ["b", "a"]
    assert sys.path == path
    assert {name for name in set(sys.modules) - modules if "transformations" in name} == set()


SINK = 'dp.create_sink("s", "headrace", {"topic": "t"})\n'
FLOW = "@dp.append_flow(target='s')\ndef f():\n    pass\n"


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named", 2),
        ("def f(:", "invalid syntax", 2),
        (f"x = 1\n{TABLE.format('twice')}{TABLE.format('twice')}", "twice is declared at", 6),
        (SINK + SINK, "s is declared at", 3),
        (FLOW + FLOW, "flow f is declared at", 5),
        ("@dp.materialized_view\ndef v():\n    pass", "materialized views are not supported", 2),
        ("@dp.append_flow(target='t', spark_conf={'a': 'b'})\ndef v():\n    pass", "spark_conf", 2),
    ],
)
def test_an_error_in_a_file_is_a_finding_with_its_line(
    tmp_path: Path, text: str, message: str, line: int
) -> None:
    directory = project(tmp_path, bad=text, good=TABLE.format("good"))
    with loaded(load_project(directory)) as found:
        (finding,) = found.findings
        assert message in finding.text
        assert finding.place is not None
        assert finding.place.file == str(directory / "transformations" / "bad.py")
        assert finding.place.line == line
        assert "good" in found.graph.tables


def test_a_file_of_sql_is_a_finding(tmp_path: Path) -> None:
    directory = project(tmp_path, good=TABLE.format("good"))
    (directory / "transformations" / "more.sql").write_text("CREATE STREAMING TABLE t")
    with loaded(load_project(directory)) as found:
        assert [finding.text for finding in found.findings] == [
            "files of SQL are not supported; declare it in Python"
        ]


SETTINGS = """
name = "shop"
worker_losses_max = 5
trigger = "1 second"
configuration = { "spark.a" = "1", "spark.b" = true }
[profile.prod]
cluster = "prod"
storage = "/mnt/lake"
stop_timeout = "90 seconds"
worker_losses_max = 20
configuration = { "spark.a" = "2" }
"""


def test_a_profile_overrides_the_settings_of_the_project(tmp_path: Path) -> None:
    directory = project(tmp_path, SETTINGS)
    plain, prod = load_project(directory), load_project(directory, "prod")
    assert (plain.storage, prod.storage) == (directory / "data", Path("/mnt/lake"))
    assert (plain.cluster, prod.cluster) == (None, "prod")
    assert plain.configuration == {"spark.a": "1", "spark.b": "true"}
    assert prod.configuration == {"spark.a": "2", "spark.b": "true"}
    assert plain.trigger == prod.trigger == "1 second"
    assert (plain.stop_seconds_max, prod.stop_seconds_max) == (240, 90)
    assert (plain.worker_losses_max, prod.worker_losses_max) == (5, 20)


@pytest.mark.parametrize(
    ("settings", "profile", "message"),
    [
        ('name = "a"\nstop_timeout = "soon"', None, "stop_timeout is 'soon', not a time"),
        ('name = "a"\ntrigger = "0 seconds"', None, "trigger is '0 seconds'"),
        ('name = "a"\nworker_losses_max = 0', None, "worker_losses_max is 0"),
        ('name = "a"\nworker_losses_max = true', None, "is True, not a int"),
        (f'name = "{"a" * 98}"\n[profile.prod]', None, "-prod has over 100 characters"),
        ("", None, "name is ''"),
        ('name = "a b"', None, "name is 'a b'"),
        ("name = 1", None, "name is 1, not a str"),
        ('name = "a"\nlibrary = ["x"]', None, "there is no key library; did you mean libraries"),
        ('name = "a"\nlibraries = []', None, "libraries is a list of patterns"),
        ('name = "a"\nlibraries = ["none/**"]', None, "libraries names no file: none/"),
        ('name = "a"\n[profile.x]\nname = "b"', None, "profile.x: there is no key name"),
        ('name = "a"\nprofile.x = 1', None, r"write \[profile.x\]"),
        ('name = "a"\n[profile.x]', "y", "there is no profile y; there are: x"),
        ('name = "a', None, "pipeline.toml: Unterminated"),
    ],
)
def test_invalid_settings_of_a_project_are_refused_by_key(
    tmp_path: Path, settings: str, profile: str | None, message: str
) -> None:
    directory = project(tmp_path, settings)
    with pytest.raises(hp.DeclarationError, match=message):
        load_project(directory, profile).files()


def test_a_directory_without_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(hp.DeclarationError, match=r"there is no pipeline\.toml"):
        load_project(tmp_path)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ('hp.debezium("id BIGINT")', "hp.debezium is not part of this release"),
        ('hp.create_auto_cdc_flow(target="t")', "hp.create_auto_cdc_flow is not part of this"),
        (
            'dp.create_auto_cdc_flow("t", "s", ["id"], "_offset")',
            "dp.create_auto_cdc_flow runs under spark-pipelines only",
        ),
        ("hp.topics", "has no attribute 'topics'"),
    ],
)
def test_a_helper_of_cdc_is_one_sentence_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, text: str
) -> None:
    # Without it pyspark takes a test process that has no main file for a doctest, and exits.
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    (tmp_path / "pipeline.toml").write_text('name = "shop"\n')
    (tmp_path / "transformations").mkdir()
    file = tmp_path / "transformations" / "all.py"
    file.write_text(
        f"from pyspark import pipelines as dp\nfrom headrace import pipeline as hp\n{call}\n"
    )
    with loaded(load_project(tmp_path)) as found:
        (finding,) = found.findings
    assert text in finding.text
    assert ("examples/cdc" in finding.text) == ("topics" not in call)
    assert "\n" not in finding.text
    assert str(finding.place) == f"{file}:3"
