"""Commands that write and read records: `produce`, `consume`, `query` and `perf`.

produce                      lines of files or of standard input follow, tail
`produce --follow`: a growing file sending                      records sent
consume, consume_reader, consume_printer, consume_share, consume_outage    records printed formats,
coordinator_formats    the format of a printed record topic_awaiting               waiting for
topics that do not exist yet query, topic_reading         SQL on topics; the source of topics, for
`topic export` too perf                         throughput and latency of a cluster
"""
