"""Users' permissions and passwords for AMQP.

definitions       vhosts and users with their limits and permissions, as texts and back
access            permissions of a connection, checked for each operation
permission_rules  permissions as rules of the broker's authorizer
"""
