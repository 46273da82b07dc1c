"""`headrace log …`: the tools that work on a broker's files, not through a broker."""

from cyclopts import App, Parameter

app = App(
    name="log",
    help="Look into a broker's files, check them, mend them, bring them in and out.",
    default_parameter=Parameter(show_default=False, negative=()),
)
app.command(
    "headrace.cli.log.dump:dump",
    help="Print what stands in segments, indexes and checkpoints.\n\nChecksums are verified; damage"
    " is named with its place and makes the command fail, after all other files were printed. For"
    " example: headrace log dump --records headrace-data/orders-0",
)
app.command(
    "headrace.cli.log.verify:verify",
    help="Read everything to the last byte; say what is wrong.\n\nNothing is written; a broker may"
    " be running. Ends with 0 (sound), 1 (damaged) or 2 (nothing to check). For example: headrace"
    " log verify headrace-data",
)
app.command(
    "headrace.cli.log.repair:repair",
    help="Mend a stopped broker's log directory.\n\nNothing"
    " is deleted, unless --truncate says so: a segment with a bad batch is moved aside"
    " (….log.damaged) and written anew without it. For example: headrace log repair headrace-data"
    " --dry-run",
)
app.command(
    "headrace.cli.log.transfer:import_",
    name="import",
    help="Bring a stopped Kafka's partitions into a log directory of ours.\n\nThe source is only"
    " read, and the result is verified. For example: headrace log import /var/lib/kafka/data"
    " headrace-data --topic orders",
)
app.command(
    "headrace.cli.log.transfer:export",
    name="export",
    help="Bring a stopped Headrace's partitions into a Kafka's log directory.\n\nThe source is only"
    " read, and the result is verified. For example: headrace log export headrace-data"
    " /var/lib/kafka/data --topic orders",
)
