"""The rows of the management API: all requests that are answered."""

from headrace.management.requests.table import Row
from headrace.operations.tags import Tag

_OBJECTS = "headrace.management.objects"
_FORM_BYTES_MAX = 64 << 10

ROWS = (
    Row("GET", "/overview", Tag.MANAGEMENT, f"{_OBJECTS}.overview:overview"),
    Row("GET", "/version", Tag.ANYONE, f"{_OBJECTS}.overview:version"),
    Row("GET", "/extensions", Tag.MANAGEMENT, f"{_OBJECTS}.overview:extensions"),
    Row("GET", "/whoami", Tag.MANAGEMENT, f"{_OBJECTS}.whoami:whoami"),
    Row("POST", "/login", Tag.ANYONE, f"{_OBJECTS}.whoami:login", _FORM_BYTES_MAX),
    Row("DELETE", "/login", Tag.ANYONE, f"{_OBJECTS}.whoami:logout"),
    Row(
        "GET",
        "/auth/hash_password/{password}",
        Tag.ADMINISTRATOR,
        f"{_OBJECTS}.whoami:hash_password",
    ),
)
