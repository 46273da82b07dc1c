"""An access log through a topic and a pipeline to Parquet tables and a picture: `make demo`.

pipeline/   the project: settings, declarations of two tables, the parser of a line, its tests
demo.py     the run from beginning to end; `make demo` starts it
archive.py  the captured log (`access.log.xz`), checked against `manifest.json`
log_file.py  a log of the reader's own
broker.py   a broker of the demo's own, in a process
topic.py    the topic, through Headrace's own client
feed.py     lines to records, at a chosen speed
pipeline_run.py  `headrace pipeline run` in a process, and its events
results.py  the tables, read back
report.py   the tables in the terminal; picture.py the PNG
folder.py   the directory that is written to, and the project's copy in it
capture/    how the log was made
"""
