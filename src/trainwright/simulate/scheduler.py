"""A model of the stock scheduler: each pod by itself to the node with most left; ties at random.

Pods are tried in the order of their arrival, as today's scheduler does it, or in random order, which is what the
back-off of those that failed amounts to. What is left is graded coarsely, as kube-scheduler does it, so that ties are
common. For every shape of pod the nodes stand on shelves by grade; only nodes that have changed are graded again, which
makes a placement cheap on any number of nodes.
"""

import heapq
from collections import deque
from random import Random

from trainwright.simulate.world import Node, Pod, Vector, World


class Scheduler:
    """The pods that wait, and where nodes stand for each shape of pod."""

    def __init__(self, world: World, random: Random, levels: int, *, shuffled: bool) -> None:
        self._world, self._random, self._levels, self._shuffled = world, random, levels, shuffled
        self._waiting: dict[Vector, deque[Pod]] = {}
        self._shelves: dict[Vector, _Shelves] = {}
        self._changed: set[int] = set()

    def add(self, pod: Pod) -> None:
        """Let a pod wait for a place."""
        self._waiting.setdefault(pod.needs, deque()).append(pod)
        if pod.needs not in self._shelves:
            shelves = self._shelves[pod.needs] = _Shelves(pod.needs, self._levels)
            for node in self._world.nodes:
                shelves.put(node)

    def touch(self, node: Node) -> None:
        """Grade a node again: something on it has changed."""
        self._changed.add(node.index)

    def place(self) -> list[tuple[Pod, Node]]:
        """Bind every waiting pod that has a place, and return them."""
        if self._shuffled:
            self._shuffle()
        queues = [(queue[0].turn, needs) for needs, queue in self._waiting.items() if _first(queue)]
        heapq.heapify(queues)
        placed = []
        while queues:
            _, needs = heapq.heappop(queues)
            queue = self._waiting[needs]
            node = self._best(needs)
            if node is None:
                continue  # nor will any other pod of this shape find a place
            pod = queue.popleft()
            self._world.bind(pod, node)
            self.touch(node)
            placed.append((pod, node))
            if _first(queue):
                heapq.heappush(queues, (queue[0].turn, needs))
        return placed

    def _shuffle(self) -> None:
        for needs, queue in self._waiting.items():
            for pod in queue:
                pod.turn = self._random.random()
            self._waiting[needs] = deque(sorted(queue, key=lambda pod: pod.turn))

    def _best(self, needs: Vector) -> Node | None:
        for shelves in self._shelves.values():
            for index in self._changed:
                shelves.put(self._world.nodes[index])
        self._changed.clear()
        return self._shelves[needs].best(self._random)


def _first(queue: "deque[Pod]") -> bool:
    """Drop pods from the front that are gone; say whether one is left."""
    while queue and queue[0].gone:
        queue.popleft()
    return bool(queue)


class _Shelves:
    """The nodes that hold one shape of pod, by how much would be left on them."""

    def __init__(self, needs: Vector, levels: int) -> None:
        self._needs, self._levels = needs, levels
        self._shelves: list[list[Node]] = [[] for _ in range(levels + 1)]
        self._where: dict[int, tuple[int, int]] = {}

    def put(self, node: Node) -> None:
        """Move a node to the shelf where it belongs now, or off the shelves if the pod does not fit."""
        grade = self._grade(node)
        at = self._where.get(node.index)
        if at is not None:
            if at[0] == grade:
                return
            self._take(node, at)
        if grade is not None:
            shelf = self._shelves[grade]
            self._where[node.index] = (grade, len(shelf))
            shelf.append(node)

    def best(self, random: Random) -> Node | None:
        """Return one of the nodes with most left, or none if the pod fits nowhere."""
        for shelf in reversed(self._shelves):
            if shelf:
                return shelf[random.randrange(len(shelf))]
        return None

    def _take(self, node: Node, at: tuple[int, int]) -> None:
        grade, place = at
        shelf = self._shelves[grade]
        last = shelf.pop()
        if last is not node:
            shelf[place] = last
            self._where[last.index] = (grade, place)
        del self._where[node.index]

    def _grade(self, node: Node) -> int | None:
        """Return the mean over the resources of what would be left, in whole levels; None if the pod does not fit."""
        if not node.up:
            return None
        total = 0
        counted = 0
        for needs, free, offers in zip(self._needs, node.free(), node.offers, strict=True):
            if needs > free:
                if needs > 0:
                    return None
                continue
            if offers:
                total += (free - needs) * self._levels // offers
                counted += 1
        return total // counted if counted else 0
