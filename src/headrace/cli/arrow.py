"""`headrace arrow`: prepare a machine for `headrace.arrow`."""

from cyclopts import App

from headrace.terminal.failure import CommandError, check_installed
from headrace.terminal.output import print_line

app = App(
    name="arrow", help="Prepare this machine for headrace.arrow, which reads segments as Arrow."
)


@app.command
def warm() -> None:
    """Compile the kernels of headrace.arrow now, so that its first call need not.

    What is compiled is kept for this user. For example: headrace arrow warm
    """
    check_installed("pyarrow", "numpy", packages=("pyarrow", "numba", "numpy"))
    from headrace.kernels.choose import numba_unwanted
    from headrace.kernels.compile_cache import prepare_cache, tell_compiling

    if numba_unwanted():
        raise CommandError(
            "there is nothing to compile: numba is missing, or HEADRACE_NUMBA=0 forbids it"
        )
    prepare_cache()
    tell_compiling(is_asked_for=True)  # before the kernels' import, which may compile
    from headrace.arrow.warm import warm as compile_kernels

    print_line(f"the kernels of headrace.arrow are ready ({compile_kernels():.1f} s)")
