"""What commands share: where the cluster is, how answers and errors look, names and places.

broker_options, defaults    where the cluster is: the options of all client commands
profile_file                addresses under names, in a file of the user
output                      answers: tables, columns, JSON
failure                     errors as one line, and exit codes
confirmation                asking before what cannot be taken back
permission_needs            which permission a refused command needs
help_text                   how --help shows texts and examples
several, watching           the same for several names; the same again and again
name_patterns, partition_choice, offset_positions    topics, partitions, places, as written
"""
