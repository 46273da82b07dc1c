"""Records in and out: `produce`, `consume`, `query` and `perf`.

produce                      lines of files or of standard input
follow, tail                 `produce --follow`: a file that grows
lines, sending               from lines to records, and on their way
consume, consume_reader      records as they come
formats, coordinator_formats    how a record is printed
topic_awaiting               topics that are not there yet
query, topic_reading         SQL on topics; where topics are read from, for `topic export` too
perf, perf_figures           how fast a cluster takes and gives records
"""
