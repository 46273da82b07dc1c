"""Print every file of a log directory as rows: `headrace log dump`.

`dump` chooses the format by file name, like Kafka's own tool, and yields a dict for each entry in
file order, reading as it goes: a segment of a gigabyte needs a few megabytes of memory. Nothing is
written and indexes are not used. A corrupt entry ends the rows with CorruptLogError, which names
file and byte. An unknown file name raises UnknownFile.

`KafkaDump` prints the same files in the format of Kafka's DumpLogSegments.

* `batches` `.log` files and KRaft's `.checkpoint` snapshots; `decoded` the coordinators' records
* `as_kafka` DumpLogSegments' output; `coordinators`, `java_text` its JSON and its strings
* `segment_files` `.index`, `.timeindex`, `.txnindex`, `.snapshot`; `text_files` checkpoints and
  other small files
"""

from headrace.logtools.dump.as_kafka import KafkaDump, KafkaOptions
from headrace.logtools.dump.files import Row, UnknownFile, dump, kind_of

__all__ = ["KafkaDump", "KafkaOptions", "Row", "UnknownFile", "dump", "kind_of"]
