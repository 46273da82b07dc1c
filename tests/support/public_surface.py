"""The public surface as sorted lines: names that users, scripts and dashboards depend on.

    python -m tests.support.public_surface            # show the differences to the file
    python -m tests.support.public_surface --write    # record additions; removals are refused
    python -m tests.support.public_surface --write --removals    # after a removal was decided on

`tests/golden/public-surface.txt` has the lines, and below `# aliases` pairs `old line => new line`:
a renamed thing whose old name still works for one version (`tests/support/surface_aliases.py`).
"""

import ast
import importlib
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "golden" / "public-surface.txt"
SCHEMAS = ROOT / "docs" / "schemas"
ALIASES = "# aliases"
HEAD = """\
# Public surface: see tests/support/public_surface.py. A line is one name with its type.
# Additions: python -m tests.support.public_surface --write. Removals need an alias for one version.
"""
OPTION_PAGES = {"spark": "source", "spark-sink": "sink", "spark-tables": "table"}
PACKAGES = ("headrace.arrow", "headrace.spark", "headrace.testing", "headrace.pipeline")
SOURCES = ("pyspark_headrace", "pyspark_headrace_table")
QUEUES = [("/", "orders"), ("/", "a_b.c d"), ("/", "é"), ("shop", "own.queue"), ("/", "q" * 255)]
"""Names of queues whose topics' names are recorded."""


class Surface(NamedTuple):
    """The lines of a file, and its aliases: old line → new line."""

    lines: frozenset[str]
    aliases: dict[str, str]


# --- collecting -----------------------------------------------------------------------------------


def collect() -> set[str]:
    """Every line of the present surface."""
    found: set[str] = set()
    for part in (metrics, schemas, exit_codes, commands, configs, spark_options, packages,
                 pytest_plugin, entry_points, loggers, topics, endpoints):  # fmt: skip
        lines = set(part())
        assert lines, part.__name__
        found |= lines
    return found


def metrics() -> Iterator[str]:
    """Names with type and labels, by registering every gauge on a broker that is not looked at."""
    from headrace.frontends.http import exposition
    from headrace.observe.metrics import Metrics
    from headrace.server import metrics_sources

    kept = Metrics()
    broker = MagicMock(metrics=kept)
    metrics_sources.register(broker, *(MagicMock() for _ in range(5)))
    metrics_sources.register_disk(kept, MagicMock())
    for gauge in kept.gauges.values():
        labels = [gauge.label] if isinstance(gauge.label, str) else gauge.label
        yield f"metric {gauge.name} {'counter' if gauge.counter else 'gauge'} {_listed(labels)}"
    blank = Metrics()
    for family in exposition._families(blank):
        name = f"{family.name}{'_total' if family.type == 'counter' else ''}"
        labels = getattr(family, "_labelnames", ())
        yield f"metric {name} {family.type} {_listed(labels)}"


def _listed(labels: Any) -> str:
    return f"labels={','.join(label for label in labels if label)}"


def schemas() -> Iterator[str]:
    """Each property of each verb's JSON, by its path, with its type."""
    for path in sorted(SCHEMAS.glob("*.json")):
        for line in _shape(json.loads(path.read_text()), ""):
            yield f"json {path.stem} {line}"


def _shape(schema: dict[str, Any], at: str) -> Iterator[str]:
    kind = schema.get("type", schema.get("$ref", "").rpartition("/")[2])
    if kind:
        text = "|".join(kind) if isinstance(kind, list) else kind
        yield f"{at or '/'} {text}"
    for word in schema.get("enum", ()):
        yield f"{at or '/'} may be {json.dumps(word)}"
    if "const" in schema:
        yield f"{at or '/'} is {json.dumps(schema['const'])}"
    required = schema.get("required", ())
    for name, below in schema.get("properties", {}).items():
        place = f"{at}/{name}{'' if name in required else '?'}"
        yield from _shape(below, place)
    if isinstance(items := schema.get("items"), dict):
        yield from _shape(items, f"{at}/[]")
    if isinstance(more := schema.get("additionalProperties"), dict):
        yield from _shape(more, f"{at}/*")
    for number, below in enumerate(schema.get("oneOf", schema.get("anyOf", ()))):
        yield from _shape(below, f"{at}({number})")
    for name, below in schema.get("$defs", {}).items():
        yield from _shape(below, f"{at}/$defs/{name}")


def exit_codes() -> Iterator[str]:
    """The command's exit codes."""
    from headrace.terminal import failure

    for name, value in vars(failure).items():
        if name.startswith("EXIT_"):
            yield f"exit {value} {name.removeprefix('EXIT_').lower()}"


def commands() -> Iterator[str]:
    """Verbs with their aliases, each name of each flag and argument with its type."""
    from headrace.cli.command_tree import app

    yield from _verbs(app, "headrace")


def _verbs(of: Any, before: str) -> Iterator[str]:
    """Verbs by all their names; flags by the first name of each word."""
    for name in of:
        if name.startswith("-"):
            continue
        found, words = of[name], f"{before} {name}"
        if found.default_command is None:
            yield from _verbs(found, words)
            continue
        yield f"command {words}"
        if words != canonical(words):
            continue
        for argument in found.assemble_argument_collection():
            if argument.names == ("*",):  # the options' own class, which groups them
                continue
            hint = _type_name(argument.hint)
            given = argument.field_info.default
            if given not in (inspect.Parameter.empty, None, False, ()):
                hint += f" default={given}"
            for flag in set(argument.names) - set(argument.negatives):
                yield f"flag {words} {flag} {hint}{' required' if argument.required else ''}"


def canonical(words: str) -> str:
    """A verb's words by the first name of each; KeyError where there is no such verb."""
    from headrace.cli.command_tree import app

    found: Any = app
    names = ["headrace"]
    for word in words.split()[1:]:
        found = found[word]
        names.append(found.name[0])
    return " ".join(names)


def _type_name(hint: Any) -> str:
    """A type without the module that it is from: that may move."""
    text = hint.__name__ if isinstance(hint, type) and "[" not in str(hint) else str(hint)
    return re.sub(r"[\w.]+\.(?=\w+)", "", text)


def configs() -> Iterator[str]:
    """Keys with type, default, and whether they can be altered."""
    from headrace.config.definitions import BROKER, TOPIC
    from headrace.config.keys.entities import CLIENT_METRICS, GROUP
    from headrace.config.value_types import text_of

    kinds = {"broker": BROKER, "topic": TOPIC, "group": GROUP, "client-metrics": CLIENT_METRICS}
    for of, table in kinds.items():
        for name, key in table.items():
            default = json.dumps(text_of(key.default), ensure_ascii=False)
            mode = f" {key.mode.value}" if of == "broker" else ""
            yield f"config {of} {name} {key.kind.name.lower()} default={default}{mode}"


def spark_options() -> Iterator[str]:
    """Options of source, sink and tables with their defaults, as the pages' tables have them."""
    for page, of in OPTION_PAGES.items():
        text = (ROOT / "docs" / f"{page}.md").read_text()
        table = text[text.index("| option | default |") :].partition("\n\n")[0]
        for row in table.splitlines()[2:]:
            first, default = row.strip().strip("|").split("|")[:2]
            values = " ".join(re.findall(r"`[^`]+`|\b\d+\b", default)).replace("`", "")
            for name in re.findall(r"`([^`]+)`", first):
                yield f"spark {of} {name} default={values}"
    from headrace.spark.sink import sink_options
    from headrace.spark.source import options
    from headrace.spark.tables import options as table_options

    given = {"source": options._NAMES, "sink": sink_options._OURS,
             "sink kafka.": sink_options._KAFKA, "table": table_options._NAMES}  # fmt: skip
    for of, names in given.items():
        for name in names:
            yield f"spark {of} accepts {name}"


def packages() -> Iterator[str]:
    """Public names of the packages that users import, with their signatures."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            yield from _signatures(f"{package}.{name}", getattr(module, name))


def _signatures(name: str, thing: Any) -> Iterator[str]:
    if not callable(thing):
        yield f"python {name}"
        return
    yield f"python {name}{_signature(thing)}"
    if not isinstance(thing, type):
        return
    for member, value in inspect.getmembers(thing):
        if member.startswith("_"):
            continue
        found = inspect.getattr_static(thing, member)
        if isinstance(found, property):
            yield f"python {name}.{member} property"
        elif callable(value) and value.__qualname__.startswith(thing.__name__):
            yield f"python {name}.{member}{_signature(value)}"


def _signature(thing: Any) -> str:
    """Parameters with defaults; annotations are left out: their modules may move."""
    if isinstance(thing, type) and issubclass(thing, Exception):
        return f" is {thing.__mro__[1].__name__}"
    found = inspect.signature(thing)
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    bare = found.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    return re.sub(r" at 0x[0-9a-f]+|[\w.]+\.(?=[A-Z])", "", str(bare))


def pytest_plugin() -> Iterator[str]:
    """Fixtures, the mark and the setting of the plugin for pytest."""
    from headrace.testing import plugin

    tree = ast.parse(inspect.getsource(plugin))
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        if any("fixture" in ast.unparse(each) for each in node.decorator_list):
            yield f"pytest fixture {node.name}"
    yield f"pytest mark {plugin.MARK}"
    yield f"pytest ini {plugin.SCOPE}"


def entry_points() -> Iterator[str]:
    """Scripts, plugins and extras of the package; the sources that Spark finds by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group, found in {"script": project["scripts"], **project["entry-points"]}.items():
        yield from (f"entry {group} {name}" for name in found)
    yield from (f"entry extra {name}" for name in project["optional-dependencies"])
    for package in SOURCES:
        source = importlib.import_module(package).DefaultSource
        yield f"entry spark {package}.DefaultSource format={source.name()}"


def loggers() -> Iterator[str]:
    """Names that BROKER_LOGGER lists: every module's logger, and those above it."""
    found = {"root"}
    for path in (ROOT / "src" / "headrace").rglob("*.py"):
        text = path.read_text()
        names = re.findall(r'getLogger\("([\w.]+)"\)', text)
        if "getLogger(__name__)" in text:
            module = path.relative_to(ROOT / "src").with_suffix("")
            names.append(".".join(module.parts).removesuffix(".__init__"))
        for name in names:
            parts = name.split(".")
            found |= {".".join(parts[: at + 1]) for at in range(len(parts))}
    yield from (f"logger {name}" for name in found)


def topics() -> Iterator[str]:
    """Internal topics, topics of queues and decisions, transactional ids of the sink."""
    from headrace.model import nouns
    from headrace.queues.queue_names import queue_topic
    from headrace.spark.sink.sink_options import parse_sink_options

    for name in ("OFFSETS_TOPIC", "TRANSACTIONS_TOPIC", "SHARE_STATE_TOPIC", "METADATA_TOPIC"):
        yield f"topic {getattr(nouns, name)}"
    for vhost, queue in QUEUES:
        yield f"topic of queue {queue!r} in {vhost!r}: {queue_topic(vhost, queue)}"
    given = {"kafka.bootstrap.servers": "h:1", "pipeline": "P", "sink": "S", "topic": "t"}
    sink = parse_sink_options({**given, "checkpointLocation": "/c"}, streaming=True)
    for name in dir(type(sink)):
        value = getattr(sink, name)
        if isinstance(value, str) and value.startswith("P.S."):
            yield f"topic or transactional id of sink S in pipeline P: {value}"


def endpoints() -> Iterator[str]:
    """Paths of the metrics listener."""
    from headrace.frontends.http.routes import PATHS

    yield from (f"http {path}" for path in PATHS)


# --- the file -------------------------------------------------------------------------------------


def read(text: str) -> Surface:
    """Parse the file."""
    lines, _, below = text.partition(ALIASES)
    pairs = (line.split(" => ") for line in below.splitlines() if " => " in line)
    kept = (line for line in lines.splitlines() if line and not line.startswith("#"))
    return Surface(frozenset(kept), {old.strip(): new.strip() for old, new in pairs})


def rendered(surface: Surface) -> str:
    """The file's text."""
    pairs = [f"{old} => {new}" for old, new in sorted(surface.aliases.items())]
    return "\n".join([HEAD.rstrip(), *sorted(surface.lines), "", ALIASES, *pairs]) + "\n"


class Changes(NamedTuple):
    """Differences between the file and the present surface."""

    added: set[str]
    removed: frozenset[str]

    def __str__(self) -> str:
        lines = [*(f"+ {line}" for line in sorted(self.added))]
        return "\n".join([*lines, *(f"- {line}" for line in sorted(self.removed))])


def changes(recorded: Surface, present: set[str]) -> Changes:
    """Compare; a removed line that has an alias is no removal."""
    removed = recorded.lines - present - recorded.aliases.keys()
    return Changes(present - recorded.lines, removed)


def main() -> int:
    """Show differences, or write the file; the exit code."""
    recorded = read(FILE.read_text() if FILE.exists() else "")
    present = collect()
    found = changes(recorded, present)
    print(found)
    if "--write" not in sys.argv[1:]:
        return 1 if found.added or found.removed else 0
    if found.removed and "--removals" not in sys.argv[1:]:
        print("removed or changed: give each an alias for one version, or --removals")
        return 1
    FILE.write_text(rendered(Surface(frozenset(present), recorded.aliases)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
