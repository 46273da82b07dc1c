"""Policies of vhosts: how they are set and cleared.

commands       changes of a vhost's policies, carried out on its model
visits         the visits of queues and exchanges after a change
stream_topics  the settings of streams' topics after a change
setting        changes that are asked for at a broker, alone or in a cluster
"""
