"""A broker as a process of this machine: `serve`, `dev` and `stop`.

serve          the options of `headrace serve` start          the start itself, and a parser of
plain `serve` commands that imports little secure         the configuration of `serve --secure` dev
several brokers in one process, for trying out dev_processes  `dev --processes`: brokers in
processes of their own, with a ZooKeeper stop           stopping a broker daemon         running in
the background pidfile        the process id of a log directory's broker banner         the text
printed once a broker accepts requests
"""
