"""This broker as a member of the cluster: registered, alive, in doubt or not, and taking orders.

registration   its registration in the store, and its session there
doubts         which of its replicas may lack what was committed
lease          until when others surely believe it alive
applier        carries out the controller's orders
"""
