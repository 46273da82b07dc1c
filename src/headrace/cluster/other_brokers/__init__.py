"""What coordinators ask of other brokers, each question gathered with those that wait beside it.

asking_others        the ways to ask, each made when it is first needed
transactions         markers of those that lead partitions, and partitions of coordinators
markers_under_way    which markers were asked for, and whose broker leads no longer
share_states, share_state_calls     what share groups ask of those that keep their state
log_ends             how far partitions are committed that others lead
gathered_questions, ways_to_brokers   what those have in common
"""
