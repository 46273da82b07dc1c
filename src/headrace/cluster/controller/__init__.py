"""Deciding for the cluster: this broker's part in it, and its term when it is elected.

controller           a broker's own part in being the controller; answers `controller_port`
term                 one broker's time as the controller: facts, decisions, orders
adoption             what a term begins with: the store's topics, directories it does not know
writer               writes decisions with the versions they were made on, or decides anew
order_peers          how orders reach other brokers, as the controller sees it
late_leaders         topics whose leaders have not said in time that they have the logs
topic_requests, auto_creation       topics asked for, and topics nobody creates by name
replica_requests, tool_requests     what admins ask, and what tools write into the store
duties, directory_failures          what a broker of a cluster sees to beside its orders
leader_balance                      leadership given back to preferred replicas by itself
producer_id_blocks, producer_id_source   producer ids, given once in the whole cluster
"""
