"""How brokers and their controller reach each other.

peer_call            a request among brokers, for `client.Client` to ask
order_messages       a controller's orders as requests, and back (pure)
order_channels       the controller's way to each broker: orders in sequence, until they arrive
controller_channel   a broker's way to the controller, whoever that is
controller_link      what a broker asks of it: here where it is the controller, else over there
peer_port            what frontends may ask in the name of another broker
peer_service         who answers that
"""
