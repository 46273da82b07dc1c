"""This broker's membership in the cluster: registration, session, doubts about replicas, orders.

registration        its registration in the store, and the session that owns it
directory_doubts    replicas that may lack committed records, and when the doubt ends
directory_notes     the file in each log directory that the next start reads
directory_stamps    stamps by which a start recognises an older copy of a log directory
given_up_replicas   logs that lack flushed records, until they are fetched again
orphaned_logs       logs of partitions that were assigned to other brokers
lease               how long a leader that is alone in the ISR may acknowledge
applier             carries out the controller's orders
"""
