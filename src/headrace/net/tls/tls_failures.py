"""Why TLS fails, in the words of who can mend it."""

import ssl


def describe(problem: OSError) -> str:
    """Return in plain words what is wrong with a handshake."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {problem.verify_message}"
    reason = getattr(problem, "reason", None)
    if reason:
        words = str(reason).replace("_", " ").lower()
        return _MEANT.get(str(reason), words)
    return str(problem)


_MEANT = {
    "UNSUPPORTED_PROTOCOL": "the client knows no TLS version of ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "the client knows no cipher of ssl.cipher.suites",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "the client has shown no certificate, and ssl.client.auth=required"
    ),
    "TLSV1_ALERT_UNKNOWN_CA": (
        "the client does not trust the authority that signed this listener's certificate"
    ),
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses this listener's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refuses this listener's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client says that this listener's one is expired",
}
"""Reasons of OpenSSL in the words of who can mend them."""
