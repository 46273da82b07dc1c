"""The controller: a broker's candidacy, and its term while it is elected.

controller           candidacy, membership and requests of one broker; implements ControllerPort
known_controller     which broker is the controller, as far as this broker knows
term                 one broker's time as the controller: facts, decisions, orders
adopted_metadata     topics of the store and unknown log directories, adopted at a start
writer               writes decisions with the versions they are based on, or decides again
order_peers          the interface by which orders reach other brokers
late_leaders         created topics whose leaders have not confirmed their logs in time
topic_requests, auto_creation       topics created by request and automatically
replica_requests, tool_requests     requests about replicas, and requests written by tools
store_watches, directory_failures     other duties of a broker in a cluster
leader_balance                      automatic election of preferred replicas
producer_id_blocks, producer_id_source   producer ids, unique in the cluster
"""
