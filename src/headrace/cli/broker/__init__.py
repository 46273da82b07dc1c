"""A broker as a process of this machine: `serve`, `dev` and `stop`.

serve       the words of `headrace serve`
start       the start itself, and the plain words of `serve`, without what a broker does not need
dev         several brokers in one process, for trying out
stop        the end of a broker
daemon      going to the background
pidfile     which process serves a log directory
banner      what is said once a broker takes requests
"""
