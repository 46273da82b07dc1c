"""The command of the protocol."""

from cyclopts import App

app = App(name="echo")
