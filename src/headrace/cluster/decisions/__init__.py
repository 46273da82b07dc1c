"""What follows from an event: facts in, changes of the store and orders to brokers out. Pure.

events         what happens, and is to be decided about
facts          what the controller knows of the store, with the versions it was read at
decide         from an event to a decision
elections      who leads a partition next
reassignment   how its replicas become others
changes        changes of topics as operations of the store and orders
orders         what brokers are told to do with their replicas
"""
