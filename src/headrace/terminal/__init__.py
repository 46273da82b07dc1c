"""Parts that all commands share: the cluster's address, results and errors, resource names.

broker_options, defaults   options of commands that connect to a cluster
profile_file               named clusters, in a file of the user
output                     results: tables, columns, JSON
failure                    errors as one line, and exit codes
confirmation               questions before an irreversible change
permission_needs           the permission that a refused command needs
help_text                  the layout of --help texts and their examples
per_name_outcomes          one command for several names, with a result each
watching                   `--watch`: repeated output
name_patterns, partition_choice, offset_positions   arguments: topics, partitions, offsets
passwords                  passwords of commands, read from a file or typed
health_reasons             reasons why a cluster is not healthy
perf_figures               records, bytes and latencies of a run
input_lines                lines of input parsed into records
directory_messages         messages about log directories that failed or are low on space
"""
