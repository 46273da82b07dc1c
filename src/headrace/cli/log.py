"""`headrace log …`: the tools that work on a broker's files, not through a broker."""

from cyclopts import App, Parameter

app = App(
    name="log",
    help="Look into a broker's files, check them, mend them, bring them in and out.",
    default_parameter=Parameter(show_default=False, negative=()),
)
app.command(
    "headrace.cli.dump:dump", help="Print what stands in segments, indexes and checkpoints."
)
app.command(
    "headrace.cli.log_verify:verify", help="Read everything to the last byte; say what is wrong."
)
app.command("headrace.cli.log_repair:repair", help="Mend a stopped broker's log directory.")
app.command(
    "headrace.cli.log_transfer:import_",
    name="import",
    help="Bring a stopped Kafka's partitions into a log directory of ours.",
)
app.command(
    "headrace.cli.log_transfer:export",
    name="export",
    help="Bring a stopped Headrace's partitions into a Kafka's log directory.",
)
