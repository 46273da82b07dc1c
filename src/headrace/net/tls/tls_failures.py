"""`describe`: plain texts for TLS errors."""

import ssl


def describe(problem: OSError) -> str:
    """Return a plain text for an error of a TLS handshake."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"invalid client certificate: {problem.verify_message}"
    reason = getattr(problem, "reason", None)
    if reason:
        words = str(reason).replace("_", " ").lower()
        return _MEANT.get(str(reason), words)
    return str(problem)


_MEANT = {
    "UNSUPPORTED_PROTOCOL": "the client supports no TLS version of ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "the client supports no cipher of ssl.cipher.suites",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "the client sent no certificate, and ssl.client.auth=required"
    ),
    "TLSV1_ALERT_UNKNOWN_CA": (
        "the client does not trust the authority that signed this listener's certificate"
    ),
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses this listener's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refuses this listener's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client reports this listener's certificate as expired",
}
"""Plain texts for OpenSSL's reason codes."""
