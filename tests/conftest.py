"""What every test needs."""

# A broker in this process warms its codecs on a thread, and kio imports hypothesis where it is
# installed: both threads at once would meet a half imported module.
import hypothesis  # noqa: F401
