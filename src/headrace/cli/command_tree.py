"""The tree of commands, as Cyclopts parses it.

Command modules are named, not imported: a command imports only its own.
"""

from cyclopts import App, Parameter

from headrace import __version__
from headrace.model.protocols import ROWS
from headrace.terminal.help_text import HelpText

_CLIENTS = [row.clients or row.name for row in ROWS if not row.needs]
app = App(
    name="headrace",
    version=__version__,
    help=f"A message broker for {', '.join(_CLIENTS[:-1])} and {_CLIENTS[-1]} clients, with its"
    " administration tools."
    "\n\nTo start: headrace serve; then in another terminal: echo hello | headrace"
    " produce t; headrace consume t --from-beginning",
    # "default: False" and "default: ()" are noise; options with a useful default show it.
    default_parameter=Parameter(show_default=False, negative=()),
    help_format="plaintext",
    help_formatter=HelpText(),
)
app.command(
    "headrace.cli.broker.serve:serve",
    help="Run a broker until SIGTERM or Ctrl-C.\n\nSettings have Kafka's names. Flags"
    " override HEADRACE_… variables (HEADRACE_LOG_DIRS for log.dirs), which override"
    " the file. All settings are in docs/configuration.md.\n\nFor example: headrace"
    " serve --port 9092 --data ./headrace-data --metrics 127.0.0.1:9404; headrace serve"
    " server.properties --daemon",
)
app.command(
    "headrace.cli.broker.dev:dev",
    help="Run a test cluster, all brokers in this process, until Ctrl-C.\n\nIt listens on"
    " this machine only, and needs no ZooKeeper unless --processes is given.\n\nFor"
    " example: headrace dev --brokers 3 --data ./trial; headrace dev --processes 3",
)
app.command(
    "headrace.cli.broker.stop:stop",
    help="Stop a broker of this machine cleanly, and wait until it has stopped.\n\nFor"
    " example: headrace stop --data ./headrace-data",
)
app.command(
    "headrace.cli.topic.topic:app",
    name="topic",
    alias="topics",
    help="Create, list, describe, alter, trim and delete topics.",
)
app.command(
    "headrace.cli.records.produce:produce",
    help="Send lines, or a growing file, to a topic.\n\nA line ends with LF; a CR before it is"
    " dropped.\n\nFor example: headrace produce orders"
    " orders.txt -K , -z zstd; headrace consume orders --json -e -o start | headrace produce copies"
    " -f json; headrace produce access -F /var/log/nginx/access.log",
)
app.command(
    "headrace.cli.records.consume:consume",
    help="Print records of topics, and new ones as they arrive.\n\nFor example: headrace"
    " consume orders --from-beginning --until-end; headrace consume orders -o -10 -f"
    " '%p@%o %k=%v\\n'; headrace consume orders -g billing --json; headrace consume"
    " jobs --share workers",
)
app.command(
    "headrace.cli.group.group:app",
    name="group",
    alias="groups",
    help="List, describe, seek, reset and delete consumer groups.",
)
app.command(
    "headrace.cli.cluster.cluster:app",
    name="cluster",
    help="Show the state of a cluster; elect leaders, move partitions; migrate a single"
    " broker to ZooKeeper.\n\nFor example: headrace cluster status --watch 2; headrace"
    " cluster partitions --under-replicated; headrace cluster reassign orders:0=1,2,3",
)
app.command(
    "headrace.cli.config:app",
    name="config",
    alias="configs",
    help="Show and change settings of topics, brokers, groups and client metrics.\n\nFor example:"
    " headrace config set topic orders retention.ms=3600000; headrace config list",
)
app.command(
    "headrace.cli.group.share:app",
    name="share",
    help="List, describe, reset and delete share groups.\n\nFor example: headrace share describe"
    " workers",
)
app.command(
    "headrace.cli.txn:app",
    name="txn",
    alias="transactions",
    help="List and describe transactions, abort hanging ones.\n\nFor example: headrace txn"
    " list --state Ongoing",
)
app.command(
    "headrace.cli.txn:producers",
    help="List active idempotent producers and open transactions per partition.\n\nProducers"
    " without idempotence are not listed. For example: headrace producers orders:0,1",
)
app.command(
    "headrace.cli.user:app",
    name="user",
    alias="users",
    help="Create, list, alter and delete SCRAM users.\n\nFor example: headrace user create alice",
)
app.command(
    "headrace.cli.token:app",
    name="token",
    alias="tokens",
    help="Create, list, renew and expire delegation tokens.\n\nFor example: headrace token create"
    " job.properties --hours 12",
)
app.command(
    "headrace.cli.quota:app",
    name="quota",
    alias="quotas",
    help="List, set and delete quotas of users, clients and addresses.\n\nFor example: headrace"
    " quota set producer_byte_rate=1048576 --user alice",
)
app.command(
    "headrace.cli.acl:app",
    name="acl",
    alias="acls",
    help="Create, list and delete ACLs.\n\nFor example: headrace acl create"
    " --allow-principal User:alice --operation read --topic orders",
)
for row in ROWS:
    for each in () if row.command is None else (row.command, *row.more_commands):
        app.command(each.app, name=each.name, help=each.help)
app.command(
    "headrace.cli.trace.trace:trace",
    help="Show replication step by step: play a textbook case, or follow a running cluster.\n\nFor"
    " example: headrace trace --list; headrace trace isr-shrink; headrace trace --follow orders",
)
app.command(
    "headrace.cli.log.log:app",
    name="log",
    help="Dump, verify, repair, import and export a broker's files.",
)
app.command(
    "headrace.cli.arrow:app",
    name="arrow",
    help="Prepare this machine for headrace.arrow, which reads segments as Arrow.\n\nFor example:"
    " headrace arrow warm",
)
app.command(
    "headrace.pipeline.commands.pipeline:app",
    name="pipeline",
    help="Check and run declared pipelines on Spark.\n\nFor example: headrace pipeline"
    " validate shop; headrace pipeline run shop --once",
)
app.command(
    "headrace.cli.completion:completion",
    help="Print a shell's completion script.\n\nFor example: source <(headrace completion bash);"
    " for good: headrace --install-completion",
)
# commands that read and measure topics
app.command(
    "headrace.cli.records.query:query",
    help="Query topics with SQL: each topic is a table, with a column for each field if its"
    " values are JSON.\n\nColumns of every record: key, value, partition, offset,"
    ' timestamp, headers. offset is a word of SQL, so write "offset". Write a topic'
    " with characters other than letters, digits and _ in double quotes. DuckDB's"
    " functions are available. The end offset of each topic is printed on standard"
    " error.\n\nFor example: headrace query 'select country, count(*) from orders group"
    " by all order by 2 desc'; headrace query --data ./headrace-data --json 'select *"
    " from orders join customers using (customer_id) limit 10'",
)
app.command(
    "headrace.cli.records.perf:app",
    name="perf",
    help="Measure the throughput and latency of a cluster.\n\nFor example: headrace perf"
    " produce t --records 1000000 --record-size 100; headrace perf consume t",
)
app.command(
    "headrace.cli.disk:disk",
    help="Show the disk usage of topics and log directories.\n\nEach replica counts. For"
    " example: headrace disk; headrace disk --json",
)
app.command(
    "headrace.cli.profile:app",
    name="profile",
    alias="profiles",
    help="Store addresses and settings of clusters under names; a profile applies if no -b"
    " is given.",
)
app.register_install_completion_command(add_to_startup=True)


@app.command
def version() -> None:
    """Print the version.

    For example: headrace version
    """
    print(f"headrace {__version__}")
