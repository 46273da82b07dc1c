"""A run whose queries and time a test plays."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.pipeline.run.failures import Failure
from headrace.pipeline.run.supervisor import Ending, Flow, Mode, Stop, Supervisor

AWAY = Failure(3, "no broker answers", passing=True)
LOST = Failure(1, "a worker was lost", passing=True)
WRONG = Failure(1, "ValueError in orders")


@dataclass
class PlayedQuery:
    """A query that a test ends."""

    error: str | None = None
    active: bool = True
    triggered: bool = False
    available: bool = False
    message: str = "Waiting for data to arrive"
    stops: int = 0
    lost: bool = False
    """Whether no call to it succeeds."""
    when_asked: Callable[[], None] = lambda: None

    def _ask(self) -> None:
        self.when_asked()
        if self.lost:
            raise RuntimeError("An error occurred while calling o83.isActive")

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        self._ask()
        return self.active

    @property
    def status(self) -> dict[str, Any]:
        self._ask()
        return {
            "message": self.message,
            "isTriggerActive": self.triggered,
            "isDataAvailable": self.available,
        }

    def exception(self) -> object:
        self._ask()
        return self.error

    def stop(self) -> None:
        self.stops += 1
        self.active = False

    def end(self, error: str | None = None) -> None:
        self.active, self.error = False, error


@dataclass
class Played:
    """A supervisor whose time passes only while it pauses, with a script of what happens when."""

    mode: Mode = Mode.CONTINUOUS
    names: tuple[str, ...] = ("a",)
    failures: dict[str, Failure] = field(default_factory=dict)
    stop: Stop | None = None
    now: float = 0.0
    script: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    started: dict[str, list[tuple[float, PlayedQuery]]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    on_start: Callable[[str, PlayedQuery], None] = lambda _name, _query: None

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(
            flows=[Flow(name, self._starter(name), self._failure) for name in self.names],
            mode=self.mode,
            idle_seconds=11.0,
            report=lambda event, **more: self.events.append({"event": event, **more}),
            stop_requested=lambda: self.stop,
            clock=lambda: self.now,
            pause=self._pause,
        )

    def _starter(self, name: str) -> Callable[[], PlayedQuery]:
        def start() -> PlayedQuery:
            query = PlayedQuery()
            self.started.setdefault(name, []).append((self.now, query))
            self.on_start(name, query)
            return query

        return start

    def _failure(self, error: Exception | str) -> Failure:
        return self.failures.get(str(error), WRONG)

    def _pause(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 10_000, "the run does not end"
        while self.script and self.script[0][0] <= self.now:
            self.script.pop(0)[1]()

    def query(self, name: str = "a") -> PlayedQuery:
        return self.started[name][-1][1]

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        self.script.append((seconds, happens))
        self.script.sort(key=lambda entry: entry[0])

    def lose_session(self) -> None:
        """Let each call to the present queries fail."""
        for name in self.started:
            self.query(name).lost = True

    def run(self) -> Ending:
        return self.supervisor.run()

    def states(self, name: str = "a") -> list[str]:
        return [event["state"] for event in self.events if event["flow"] == name]
