"""Every file of a log directory as rows for people: `headrace log dump`.

`dump` looks at the name, as Kafka's own tool does, and yields one dict per entry, in the order of
the file, reading as it goes: a segment of a gigabyte takes a few megabytes of memory. Nothing is
written and no index is believed. A damaged entry ends the rows with CorruptLogError, which names
the file and the byte; rows before it have been yielded. A name that no log directory has raises
UnknownFile.

`KafkaDump` prints the same files in the words of Kafka's DumpLogSegments.

* `batches` `.log`, and KRaft's `.checkpoint` snapshots · `decoded` the coordinators' records
* `as_kafka` DumpLogSegments' text · `coordinators`, `java` its JSON and its strings
* `beside` `.index`, `.timeindex`, `.txnindex`, `.snapshot` · `texts` checkpoints and their kin
"""

from headrace.logtools.dump.as_kafka import KafkaDump, KafkaOptions
from headrace.logtools.dump.files import Row, UnknownFile, dump, kind_of

__all__ = ["KafkaDump", "KafkaOptions", "Row", "UnknownFile", "dump", "kind_of"]
