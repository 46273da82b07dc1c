"""The network of `replicated_queue`: requests about copies that are delayed, lost and repeated."""

from collections.abc import Sequence
from dataclasses import replace

from headrace.copies.messages import CopyAnswer
from headrace.delivery.settled_state import FrameName, find_frames
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done, ignore_result
from headrace.queue_stores.log.settled_files import settled_path
from tests.support.cluster.queue_node import QueueNode, Request
from tests.support.cluster.three_replicas import BROKERS, Node, ThreeReplicas, Violation
from tests.support.log.log import content


class CopyNetwork(ThreeReplicas):
    """Three replicas of a queue whose brokers ask each other about copies of settled positions."""

    def __init__(self, seed: int) -> None:
        self.requests: list[Request] = []
        self.late: list[Request] = []
        self.asked: list[Request] = []
        self.frames: dict[FrameName, bytes] = {}
        self.healed = False
        self.time = 0.0
        self.planned = 0.0, BROKERS[0]
        """When the leader is killed, perhaps, and the broker that leads next."""
        self.deaf = BROKERS[0], 0.0
        super().__init__(seed)

    def queue_node(self, node: Node) -> QueueNode:
        assert isinstance(node, QueueNode)
        return node

    def deafen(self) -> None:
        """Have requests about copies to a broker fail for a while, but not its fetches."""
        self.deaf = self.drawn.choice(BROKERS), self.time + self.drawn.choice((0.3, 2.0))

    def carry(self) -> None:
        """Carry a request or an answer, or lose it."""
        if self.late and self.drawn.random() < 0.2:
            request = self.late.pop(self.drawn.randrange(len(self.late)))
            self.ask(request, ignore_result)
            self.planned = self.time + 0.05, request.target
            return
        if not self.requests:
            return
        request = self.requests.pop(self.drawn.randrange(len(self.requests)))
        is_whole = any(question.whole_bytes for question in request.questions)
        if request.answers is None and self.drawn.random() < (0.3 if is_whole else 0.05):
            self.late.append(replace(request))
        deaf, until = self.deaf
        is_lost = self.drawn.random() < 0.1 or (request.target == deaf and self.time < until)
        if not self.healed and is_lost:
            request.end(ApiError(ErrorCode.NETWORK_EXCEPTION))
            if request.answers is None:
                self.late.append(replace(request))  # it arrives nevertheless, later
            return
        if request.answers is not None:
            request.end(request.answers)
            return

        def answered(answers: Sequence[CopyAnswer]) -> None:
            request.answers = answers
            self.requests.append(request)

        self.ask(request, answered)

    def ask(self, request: Request, answered: Done[Sequence[CopyAnswer]]) -> None:
        target = self.queue_node(self.nodes[request.target])
        if not target.alive:
            request.end(ApiError(ErrorCode.NETWORK_EXCEPTION))
            return
        process = target.process

        def heard(answers: Sequence[CopyAnswer]) -> None:
            if target.process == process:
                self.asked.remove(request)
                answered(answers)

        self.asked.append(request)
        target.followed.answer(request.questions, heard)

    def compare_files(self) -> None:
        """Check that frames of one name are the same in all files."""
        for node in self.nodes:
            path = settled_path(node.log.directory)
            if not node.world.disk.exists(path):
                continue
            data = content(node.world.disk, path)
            begin = 0
            for frame in find_frames(data):
                found = data[begin : frame.end]
                begin = frame.end
                if self.frames.setdefault(frame.name, found) != found:
                    raise Violation(f"two frames are called {frame.name}")
