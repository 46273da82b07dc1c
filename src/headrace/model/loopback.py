"""`is_loopback`: whether a host is this machine's loopback interface, by one rule for all rooms."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether a host is loopback: 127.0.0.0/8, `::1`, either mapped to IPv6, `localhost`.

    No name but `localhost` is resolved or accepted; an empty host and those that stand for all
    interfaces are not loopback.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    # `is_loopback` of a mapped address is true since Python 3.13 only. A socket bound to one, or
    # connected from one, is an IPv4 socket of this machine on every version.
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
