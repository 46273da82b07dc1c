"""An nginx access log through a topic and Spark to Parquet tables and a picture: `make demo`.

demo.py     the run from beginning to end; what `make demo` starts
archive.py  the captured log (`access.log.xz`), checked against `manifest.json`
broker.py   a broker of the demo's own, in a process
topic.py    the topic, through Headrace's own client
feed.py     lines to records, at a chosen speed
line.py     one line: what its fields are, or why it cannot be read
tables.py   the pipeline: requests, quarantine, one-minute windows
live.py     the pipeline's queries at work
leftovers.py  what a stopped query leaves in a table's folder, removed
results.py  what was written, read back
report.py   the tables in the terminal; picture.py the PNG
folder.py   the directory written to
capture/    how the log was made
"""
