"""Policies of a vhost: settings for queues and exchanges whose names match.

policy        a policy as a value, and the checks of a new one
keys          the keys of definitions: their values, queue types and joins
erlang_terms  values as RabbitMQ's texts show them
matching      the policy of each object: by pattern, object type and priority
vhost_policy  the policies of a vhost: as texts, and their common bounds
effective     settings of an object: its arguments joined with its policies
present       the policies that a vhost has, and the settings of its objects
"""
