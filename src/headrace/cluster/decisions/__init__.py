"""The controller's decisions: facts and an event in, store changes and orders out. Pure functions.

events         events that need a decision
facts          the controller's copy of the store, with the versions of its nodes
decide         from an event to a decision
elections      the next leader of a partition
reassignment   the steps from a partition's replicas to others
changes        changes of topics as store operations and orders
orders         orders to brokers about their replicas: lead, follow, stop
"""
