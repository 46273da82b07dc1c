"""Shared parts of commands: the cluster's address, printed results and errors, names of resources.

broker_options, defaults    the cluster: options of all client commands profile_file
named clusters, in a file of the user output                      results: tables, columns, JSON
failure                     errors as one line, and exit codes confirmation                questions
before an irreversible change permission_needs            the permission that a refused command
needs help_text                   the layout of --help texts and examples per_name_outcomes
one command for several names, a result each watching                    `--watch`: repeated output
name_patterns, partition_choice, offset_positions    arguments: topics, partitions, offsets
"""
