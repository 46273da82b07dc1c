"""`headrace serve --secure`: certificates, first user and client files, created once (ADR 46).

preparation    the authority, the certificate, the password: made, kept, renewed, or found damaged
first_user     the broker that has its first user before it lets anybody in
locked_config  the configuration of a locked broker
client_files   what clients take, as text
"""
