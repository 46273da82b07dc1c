"""`headrace log`: the tree of commands that work on a broker's files, not through a broker."""

from cyclopts import App

app = App(name="log", help="Dump, verify, repair, import and export a broker's files.")
app.command(
    "headrace.cli.log.dump:dump",
    help="Print the contents of segments, indexes and checkpoints.\n\nChecksums are"
    " verified. Damage is reported with its position, and the command fails after it"
    " has printed all files. For example: headrace log dump --records"
    " headrace-data/orders-0",
)
app.command(
    "headrace.cli.log.verify:verify",
    help="Read all files completely and report damage.\n\nNothing is written; a broker may"
    " be running. Exits with 0 (undamaged), 1 (damaged) or 2 (nothing to check). For"
    " example: headrace log verify headrace-data",
)
app.command(
    "headrace.cli.log.repair:repair",
    help="Repair a stopped broker's log directory.\n\nNothing is deleted without --truncate:"
    " a segment with a bad batch is renamed (….log.damaged) and rewritten without that"
    " batch. For example: headrace log repair headrace-data --dry-run",
)
app.command(
    "headrace.cli.log.transfer:import_",
    name="import",
    help="Import a stopped Kafka broker's partitions into a Headrace log directory.\n\nThe"
    " source is only read, and the result is verified. For example: headrace log import"
    " /var/lib/kafka/data headrace-data --topic orders",
)
app.command(
    "headrace.cli.log.transfer:export",
    name="export",
    help="Export a stopped Headrace broker's partitions into a Kafka log directory.\n\nThe"
    " source is only read, and the result is verified. For example: headrace log export"
    " headrace-data /var/lib/kafka/data --topic orders",
)
