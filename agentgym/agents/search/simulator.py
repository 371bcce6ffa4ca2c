"""`Simulator`: tries actions in states of an episode and leaves the episode as it was.

Going back is a `restore` of a snapshot, which every id supports, instead of an undo action.
`ImaginedSimulator` asks a world model instead, and leaves the environment alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from agentgym.agents.basic.view import View
from agentgym.agents.basic.world_model import WorldModel
from agentgym.errors import ConfigError
from agentgym.snapshots import chance_probe, restore_snapshot, snapshot_of, state_key

Future = Literal["sampled", "known"]


@dataclass(eq=False, slots=True)
class Node:
    """A state that a search has reached.

    Attributes:
        snapshot: the state.
        key: equal for equal states, regardless of turn and random state.
        observation: the observation.
        info: the info.
        parent: the state before. None: the state of the episode.
        action: the action that led here.
        reward: sum of the rewards since the state of the episode, undiscounted.
        over: whether the episode has terminated or was truncated.
        terminated: whether it has terminated.
        chance: whether a chance event took part in the last step, so that it may end elsewhere.
        depth: number of actions since the state of the episode.
        value: the estimate of the search.
    """

    snapshot: dict[str, Any]
    key: str
    observation: str
    info: dict[str, Any]
    parent: Node | None = None
    action: str = ""
    reward: float = 0.0
    over: bool = False
    chance: bool = False
    depth: int = 0
    value: float = 0.0
    terminated: bool = False

    @property
    def path(self) -> list[Node]:
        """The states after that of the episode, up to this one."""
        found, node = [], self
        while node.parent is not None:
            found.append(node)
            node = node.parent
        return found[::-1]

    @property
    def solved(self) -> bool:
        """Whether the episode has ended with success."""
        return self.over and bool(self.info["success"])


class Rehearsal:
    """Tries actions in states of an episode, within a budget. A context manager.

    Args:
        view: the episode.
        budget: the steps that may be taken.
        exhausted: returns whether another budget is used up. One step is taken regardless.

    Attributes:
        root: the state of the episode.
        steps: steps taken.
        chance: whether a chance event took part in any of them.
        cost: name of the steps in `View.costs`.
    """

    cost = "search_steps"
    root: Node

    def __init__(self, view: View, budget: int, exhausted: Callable[[], bool] = lambda: False):
        self.view, self.budget, self._exhausted = view, budget, exhausted
        self.steps, self.chance = 0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Leaves the episode as it was."""

    @property
    def stopped(self) -> bool:
        """Whether no more steps may be taken."""
        return self.steps >= self.budget

    @property
    def spent(self) -> bool:
        """Whether a budget is used up, so that no more states are expanded."""
        return self.stopped or (self.steps > 0 and self._exhausted())

    def step(self, node: Node, action: str) -> Node:
        """Plays an action in a state and returns the next one."""
        raise NotImplementedError

    def view_of(self, node: Node) -> View:
        """Returns a state as an agent sees it, with a generator of its own."""
        turns = [(n.parent.observation, n.action) for n in node.path if n.parent is not None]
        return View(
            instructions=self.view.instructions,
            observation=node.observation,
            info=node.info,
            rng=np.random.default_rng(int(self.view.rng.integers(2**63))),
            env=self.view.env,
            history=[*self.view.history, *turns],
        )

    def views_of(self, nodes: Sequence[Node]) -> list[View]:
        """Returns several states as an agent sees them that reads only their texts."""
        return [Rehearsal.view_of(self, node) for node in nodes]


class Simulator(Rehearsal):
    """Plays actions in the environment of an episode.

    At its end, the environment is in the state of the episode again, random state included.

    Args:
        view: the episode.
        budget: the environment steps that may be taken.
        future: "sampled" gives the copy of a state a new random state, so that the outcomes of
            chance are those that can happen. "known" keeps the random state, so that they are
            those that will happen.
        exhausted: returns whether another budget is used up. One step is taken regardless.

    Raises:
        ConfigError: if the environment has no snapshots, or its chance events cannot be sampled.
    """

    def __init__(
        self,
        view: View,
        budget: int,
        future: Future = "sampled",
        exhausted: Callable[[], bool] = lambda: False,
    ):
        super().__init__(view, budget, exhausted)
        self.future = future
        try:
            here = snapshot_of(view.env)
        except AttributeError as error:
            raise ConfigError(
                f"A search needs snapshots, and {view.env} has none ({error}). Play an id of "
                "AgentGym, or a single seat of a game."
            ) from error
        self.root = Node(here, state_key(here), view.observation, view.info)
        self._at = self.root

    def __exit__(self, *error: object) -> None:
        """Restores the state of the episode."""
        if self.steps:
            restore_snapshot(self.view.env, self.root.snapshot)

    def view_of(self, node: Node) -> View:
        """Returns a state as an agent sees it. The environment, which an expert asks, is in it."""
        self._go(node)
        return super().view_of(node)

    def _go(self, node: Node) -> None:
        """Puts the environment into a state."""
        if self._at is not node:
            restore_snapshot(self.view.env, node.snapshot)
            self._at = node

    def step(self, node: Node, action: str) -> Node:
        """Plays an action in a state and returns the next one."""
        env: Any = self.view.env.unwrapped
        self._go(node)
        if self.future == "sampled":
            env.reseed(int(self.view.rng.integers(2**63)))
        drawn = chance_probe(env)
        self.steps += 1
        self._at = node  # an error leaves an unknown state, which is restored at the end
        observation, reward, terminated, truncated, info = self.view.env.step(action)
        chance = self.future == "sampled" and drawn()
        self.chance |= chance
        snapshot = snapshot_of(self.view.env)
        self._at = Node(
            snapshot, state_key(snapshot), observation, info, node, action,
            node.reward + float(reward), terminated or truncated, chance, node.depth + 1,
            terminated=bool(terminated),
        )  # fmt: skip
        return self._at


class ImaginedSimulator(Rehearsal):
    """Predicts the outcome of actions with a world model. It never uses the environment.

    States with equal observations count as the same state. The info of a predicted state has only
    `turn`, `task`, and the predicted `progress`, `success` and `admissible`, and `predicted` True.
    If no admissible actions are predicted, they are those of the state before.

    Args:
        view: the episode.
        budget: the predictions that may be made.
        world: the world model.
        exhausted: returns whether another budget is used up. One step is taken regardless.
    """

    cost = "predicted_steps"

    def __init__(
        self,
        view: View,
        budget: int,
        world: WorldModel,
        exhausted: Callable[[], bool] = lambda: False,
    ):
        super().__init__(view, budget, exhausted)
        self.world = world
        self.root = Node({}, view.observation, view.observation, view.info)

    def step(self, node: Node, action: str) -> Node:
        """Predicts the outcome of an action in a state and returns the next one."""
        self.steps += 1
        [found] = self.world.predict([self.view_of(node)], [action])
        info = {
            "turn": node.info.get("turn", 0) + 1,
            "task": node.info.get("task", ""),
            "progress": found.progress,
            "success": found.success,
            "admissible": found.admissible or node.info.get("admissible", ()),
            "predicted": True,
        }
        return Node(
            {}, found.observation, found.observation, info, node, action,
            node.reward + found.reward, found.over, False, node.depth + 1,
        )  # fmt: skip
