"""GeneratedWorlds: small worlds whose dynamics, words, observations and rewards are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from agentgym.core import TextEnv
from agentgym.envs.worlds.kinds import KINDS, MOST_TURNS
from agentgym.envs.worlds.world import DISTANCE, DRAWN, LAYERS, Level, World, make_world
from agentgym.errors import ConfigError
from agentgym.tasks import Tasks
from agentgym.time_limits import MANY_TURNS
from agentgym.time_step import TimeStep

PRICE = 0.5
"""Reward that is lost when an episode with the reward "price" takes all turns."""


@dataclass
class State:
    """The place of each variable's value, and those that the last action changed."""

    values: list[int]
    changed: list[str]


class GeneratedWorlds(TextEnv):
    """Small worlds that are generated: learn the rules of each one, and reach its goal.

    ## Description
    A world has some variables, such as dials, levers, rooms, items in a row or the fields of an
    island, and actions that change them. Its rules, its words, its observations and its rewards
    are layers, which are drawn, and each of which can be swapped alone. Each world is checked on
    all of its states before it is played: every action and variable has an effect, every state can
    lead back to the first one, and random actions solve at most half of the episodes of a level.

    ## Action Space
    Text: one of the actions that the observation lists, such as `turn red dial`.

    ## Observation Space
    Text: the kind of the world, its actions, the variables, and the goal. With the words "told",
    the effect of each action is told as well.

    ## Rewards
    Term `task`: 1 at the goal with the rewards "goal" and "price", and with "progress" the change
    of the distance to the goal as a share of the first distance. Term `price`: with "price", each
    action costs 0.5 divided by the turn limit.

    ## Starting State
    The task determines the first state and a goal that is 2 to 8 actions away, no more than
    `max_turns`, and the world too unless `world` does. Levels of training tasks are no levels of
    test tasks. Worlds are drawn anew for each task. The worlds of test tasks equal no world of a
    training task or of a number, also but for names and the order of variables and actions. Within
    a split, worlds repeat: there are few of the kinds "row" and "levers".

    ## Episode End
    Termination: the goal is reached. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the share of the first distance to the goal that is covered.

    ## Arguments
    - `world` (int or None, default None): number of the world that all tasks share. None: each task
      has a world of its own.
    - `dynamics` (str, default "drawn"): "dials", "levers", "rooms", "row", "island", or a file of
      rules that ends in `.json`.
    - `words` (str, default "drawn"): "told" (the effects of actions are told), "named" (their names
      say them), "invented" (their names say nothing), or "inverse" (each action has the name of
      another one).
    - `observation` (str, default "drawn"): "full", "changes" (the variables that the last action
      changed) or "hidden" (one variable is not shown after the first turn).
    - `reward` (str, default "drawn"): "goal", "progress" or "price".
    - `max_turns` (int, default 30): turn limit, from 2 to 100. It can be larger with "levers"
      (150), "island" (300) and a file (1,000).

    ## Notes
    `agentgym.envs.worlds.written.write_rules` lets a language model write the rules of a file. The
    tutorial "Worlds and tasks that are generated" swaps layers, and measures whether many worlds
    teach about new ones.

    ## References
    "AutoEnv: Automated Environments for Measuring Cross-Environment Agent Learning" (arXiv
    2511.19304). Kept: layers of dynamics, observation and reward, names that say the opposite,
    checks before use. Changed: rules are data instead of code, so that checks are exact.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are in a small world with rules of its own. Reach the goal.\n"
        "The observation names the actions, the variables and the goal. Names of actions may say "
        "nothing about what they do, or something wrong: try them.\n"
        "Each turn, reply with one action as it is listed.\n"
        "Reaching the goal ends the episode with the largest reward."
    )
    State = State
    reward_names = ("task", "price")
    declares: ClassVar[dict[str, str]] = {
        "semantic.no_solution_leakage": "each world lists its own actions, those of others are "
        "wrong",
    }

    def __init__(
        self,
        *,
        world: int | None = None,
        dynamics: str = DRAWN,
        words: str = DRAWN,
        observation: str = DRAWN,
        reward: str = DRAWN,
        max_turns: int = 30,
        **kwargs,
    ):
        if dynamics not in (DRAWN, *KINDS) and not dynamics.endswith(".json"):
            raise ConfigError(
                f"dynamics must be {DRAWN!r}, one of {[*KINDS]} or a file of rules that ends in "
                f".json, got {dynamics!r:.80}."
            )
        layers = {"words": words, "observation": observation, "reward": reward}
        for layer, given in layers.items():
            if given not in (DRAWN, *LAYERS[layer]):
                known = (DRAWN, *LAYERS[layer])
                raise ConfigError(f"{layer} must be one of {known}, got {given!r:.80}.")
        if max_turns < DISTANCE[0]:
            raise ConfigError(
                f"max_turns must be at least {DISTANCE[0]}, the least number of actions to a goal, "
                f"got {max_turns}. Give more turns."
            )
        other = min(MOST_TURNS.values()) if dynamics == DRAWN else MANY_TURNS
        if max_turns > (most := MOST_TURNS.get(dynamics, other)):
            raise ConfigError(
                f"max_turns must be at most {most} with dynamics={dynamics!r:.80}, since random "
                f"actions reach most goals in more, got {max_turns}. Give fewer turns."
            )
        super().__init__(max_turns=max_turns, **kwargs)
        if dynamics.endswith(".json"):
            dynamics = str(Path(dynamics).absolute())
        self.world_number = world
        self._made: tuple[str, tuple[World, Level, np.ndarray] | None] = ("", None)
        self._layers = (max_turns, dynamics, words, observation, reward)
        self.tasks = Tasks.generated()
        if dynamics.endswith(".json") or world is not None:
            self.world_of("train/0")

    def world_of(self, task: str) -> World:
        """Returns the world of a task."""
        number = self.world_number
        return make_world(task if number is None else f"world/{number}", *self._layers)

    def _level(self) -> tuple[World, Level, np.ndarray]:
        """Returns the world and the level of the task, and the distance from each state."""
        if self._made[0] != self.task:
            world = self.world_of(self.task)
            level = world.level(self.task, self._layers[0])
            self._made = self.task, (world, level, world.distances(world.met(level.goal)))
        assert self._made[1] is not None
        return self._made[1]

    def _left(self) -> int:
        """Returns the least number of actions to the goal."""
        world, _, distances = self._level()
        return int(distances[world.places[tuple(self.state.values)]])

    def _start(self, task: str) -> TimeStep:
        world, level, _ = self._level()
        self.state = State([*level.start], [*world.rules.variables])
        return self._look(None)

    def _advance(self, action: str) -> TimeStep:
        world, _, _ = self._level()
        if action not in world.names:
            known = ", ".join(world.names)
            return self._invalid(f"Invalid action {action[:40]!r}. Reply with one of: {known}.")
        before, old = self._left(), self.state.values
        new = [*world.rules.move(tuple(old), world.names[action])]
        pairs = zip(world.rules.variables, old, new, strict=True)
        self.state = State(new, [name for name, was, now in pairs if was != now])
        return self._look(before - self._left())

    def _look(self, gained: int | None) -> TimeStep:
        """Returns the step at the state.

        Args:
            gained: by how much the last action shortened the way to the goal. None at the start.
        """
        world, level, distances = self._level()
        left, first = self._left(), int(distances[world.places[level.start]])
        done = left == 0
        rewards = {}
        if gained is not None:
            rewards["task"] = gained / first if world.reward == "progress" else float(done)
            if world.reward == "price":
                rewards["price"] = -PRICE / self._layers[0]
        goal = ", ".join(f"{name} {value}" for name, value in level.goal.items())
        shown = self._shown(world, gained is None)
        return TimeStep(
            text="\n".join([*_told(world), shown, f"Goal: {goal}." + " You are there." * done]),
            rewards=rewards,
            terminated=done,
            success=done,
            progress=max(0.0, 1 - left / first),
            admissible=() if done else tuple(world.names),
            state_key=f"{self.task} {self.state.values} {shown}",
        )

    def _shown(self, world: World, all_of_them: bool) -> str:
        """Returns the variables that the agent sees."""
        named = zip(world.rules.variables.items(), self.state.values, strict=True)
        values = {name: known[i] for (name, known), i in named}
        label = "Now"
        if world.observation == "changes" and not all_of_them:
            values = {name: values[name] for name in self.state.changed}
            label = "Changed"
        if not all_of_them:
            values.pop(world.hidden, None)
        shown = ", ".join(f"{name} {value}" for name, value in values.items())
        return f"{label}: {shown or 'nothing'}."

    def _restored(self) -> None:
        self._left()

    def privileged_text(self) -> str:
        """Returns all variables, and the least number of actions to the goal."""
        world, _, _ = self._level()
        return f"{self._shown(world, True)} Actions to the goal: {self._left()}."

    def expert(self) -> str | None:
        """Returns the first action on a shortest way to the goal, which it knows."""
        world, _, distances = self._level()
        place = world.places[tuple(self.state.values)]
        after = distances[world.moves[:, place]]
        if not distances[place]:
            return None
        best = [*world.rules.actions][int(np.argmin(after))]
        return next(name for name, action in world.names.items() if action == best)


def _told(world: World) -> list[str]:
    """Returns the lines about the rules that the agent reads."""
    if world.words != "told":
        return [world.rules.about, f"Actions: {', '.join(world.names)}."]
    circles = [f"{name}: {', '.join(values)}" for name, values in world.rules.variables.items()]
    effects = [f"- {name}: {world.rules.told(action)}" for name, action in world.names.items()]
    return [world.rules.about, f"Values in order: {'; '.join(circles)}.", "Actions:", *effects]
