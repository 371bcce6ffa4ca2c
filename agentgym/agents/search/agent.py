"""`SearchAgent`: plans on snapshots of the environment and plays the plan."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.agents.basic.view import Agent, View
from agentgym.agents.basic.world_model import WorldModel
from agentgym.agents.search.action_judges import ActionJudge
from agentgym.agents.search.code_value import CodeValue
from agentgym.agents.search.guide import SearchGuide, Settings, Value
from agentgym.agents.search.simulator import (
    Future,
    ImaginedSimulator,
    Node,
    Rehearsal,
    Simulator,
)
from agentgym.agents.search.tree import astar, beam, best_first, mcts
from agentgym.errors import ConfigError, did_you_mean

ALGORITHMS = {"best_first": best_first, "astar": astar, "beam": beam, "mcts": mcts}


@dataclass
class _Episode:
    """A search agent's memory of an episode.

    Attributes:
        visited: keys of the states that the episode has passed.
        plan: the states that the plan expects, the next one first.
        expected: key of the state that the last action of the plan should have led to.
        earned: sum of the rewards so far.
    """

    visited: set[str] = field(default_factory=set)
    plan: deque[Node] = field(default_factory=deque)
    expected: str = ""
    earned: float = 0.0


class SearchAgent:
    """Searches from the current state, plays the plan, and searches again at its end.

    A plan is also given up as soon as the episode takes another course than planned. The costs of
    an episode are in `View.costs` and in reports: `search_steps` (environment steps),
    `search_tokens` (tokens of the policy, a judge and a world model), `searches`, `plans_given_up`,
    and `unread_values` (replies of a judge without a score).

    The search knows the rules and the whole state of the environment, hidden parts included, such
    as the cards of other players. Results of agents that only observe are not comparable. It does
    not know chance events to come unless `future` is "known".

    With `world`, a world model takes the place of the environment, as in "Web Agents with World
    Models" (arXiv 2410.13232). The agent then knows only its observations. Predictions are counted
    as `predicted_steps`, not as `search_steps`. A plan whose prediction does not come true is given
    up. States, rewards and progress are predicted ones.

    Args:
        algorithm: "best_first" (arXiv 2407.01476), "astar" (arXiv 2310.13227), "beam" (arXiv
            2502.18407) or "mcts".
        budget: environment steps per search.
        tokens: tokens of the policy and the world model per search. None: no limit.
        value: the value of a state. "progress": `info["progress"]`. "random" and "policy": the mean
            return of `rollouts` episodes that random actions or the policy play from it, whose
            steps count. "critic": the policy's critic. "judge": the policy's judge of actions, by
            its method `scores`. The attribute `whole` tells whether they predict the return of the
            whole episode, or of the rest from the action on (the default). "code": a program.
        judge: judge of actions for the value "judge" (None: the policy), or a `CodeValue`.
        policy: an agent that proposes actions. None: all admissible actions are tried.
        width: proposed actions per state. None: all admissible actions, or 5 of a policy.
        rollouts: episodes per state of the values "random" and "policy".
        exploration: the constant c of MCTS.
        turns: turns from value 0 to value 1, for A*.
        beams: states that beam search keeps at each depth.
        future: "sampled" or "known": whether chance events are sampled anew in the search, or are
            those of the episode, which no honest agent can know.
        world: an agent that predicts the outcomes of actions (see `WorldModel`). None: the search
            plays on snapshots.
        name: name in reports.

    Raises:
        ConfigError: for an unknown algorithm, a number out of range, or a value that needs a
            policy.
    """

    def __init__(
        self,
        algorithm: str,
        *,
        budget: int = 32,
        tokens: int | None = None,
        value: Value = "progress",
        policy: Agent | None = None,
        width: int | None = None,
        rollouts: int = 1,
        exploration: float = 0.5,
        turns: float = 20.0,
        beams: int = 5,
        future: Future = "sampled",
        world: Agent | None = None,
        judge: ActionJudge | CodeValue | None = None,
        name: str | None = None,
    ):
        if algorithm not in ALGORITHMS:
            raise ConfigError(
                f"Unknown search {algorithm!r}.{did_you_mean(algorithm, ALGORITHMS)} "
                f"Known: {', '.join(ALGORITHMS)}."
            )
        given = {
            "budget": budget,
            "tokens": tokens,
            "width": width,
            "rollouts": rollouts,
            "beams": beams,
        }
        for option, number in given.items():
            if number is not None and number < 1:
                raise ConfigError(f"{option} must be at least 1, got {number}.")
        for option, number in {"exploration": exploration, "turns": turns}.items():
            if number < 0:
                raise ConfigError(f"{option} must be at least 0, got {number}.")
        method = {"policy": "act", "critic": "values", "judge": "scores"}.get(value)
        if judge is not None and value != ("code" if isinstance(judge, CodeValue) else "judge"):
            raise ConfigError(f"A judge goes with value=judge, got value={value}.")
        if judge is None and value == "code":
            raise ConfigError("value=code needs a program: give value=code:FILE.")
        if method is not None and judge is None and not hasattr(policy, method):
            raise ConfigError(
                f"value={value} needs a policy with a method `{method}`, "
                f"got {getattr(policy, 'name', None)!r}: give policy=FOLDER."
            )
        if world is not None and future != "sampled":
            raise ConfigError("A world model does not know the future: leave out future or world.")
        self.name = name or f"search:{algorithm}"
        self.wrap = tuple(getattr(policy, "wrap", ()))
        self.budget, self.tokens = budget, tokens
        self.future: Future = future
        self.world = None if world is None else WorldModel(world)
        judge = policy if judge is None else judge  # type: ignore[assignment]
        self.settings = Settings(value, policy, judge, width, rollouts, exploration, turns, beams)
        self._search = ALGORITHMS[algorithm]
        self._episodes: weakref.WeakKeyDictionary[View, _Episode] = weakref.WeakKeyDictionary()

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view.

        Raises:
            ConfigError: if an environment has no snapshots, or lists no actions and there is no
                policy.
        """
        return [self._act(view) for view in views]

    def _act(self, view: View) -> str:
        episode = self._episodes.setdefault(view, _Episode())
        episode.earned += sum(view.info.get("reward_terms", {}).values())
        before, unread = self._used(), self._unread
        limit = None if self.tokens is None else before + self.tokens
        exhausted = lambda: limit is not None and self._used() >= limit  # noqa: E731
        with self._rehearsal(view, exhausted) as sim:
            here = sim.root.key
            episode.visited.add(here)
            if episode.plan and episode.expected != here:
                episode.plan.clear()
                view.costs["plans_given_up"] += 1
            if not episode.plan:
                guide = SearchGuide(sim, self.settings, episode.visited, episode.earned)
                episode.plan.extend(self._search(sim, guide))
                view.costs["searches"] += 1
        view.costs[sim.cost] += sim.steps
        if self._models:
            view.costs["search_tokens"] += self._used() - before
        if self._unread > unread:
            view.costs["unread_values"] += self._unread - unread
        following = episode.plan.popleft()
        episode.expected = following.key
        return following.action

    def _rehearsal(self, view: View, exhausted: Callable[[], bool]) -> Rehearsal:
        """Returns the means to try actions: snapshots, or the world model."""
        if self.world is None:
            return Simulator(view, self.budget, self.future, exhausted)
        return ImaginedSimulator(view, self.budget, self.world, exhausted)

    @property
    def _unread(self) -> int:
        """Replies of a judge without a score so far."""
        return getattr(self.settings.judge, "unread", 0)

    @property
    def _models(self) -> list[Any]:
        """The agents and judges whose tokens count."""
        settings, world = self.settings, self.world
        models = [settings.policy, settings.judge, None if world is None else world.agent]
        return list({id(agent): agent for agent in models if agent is not None}.values())

    def _used(self) -> int:
        """Returns the tokens of all models so far."""
        return sum(map(tokens_of, self._models))


def tokens_of(agent: Any) -> int:
    """Returns the tokens that an agent has read and generated so far, 0 if it counts none."""
    usage = getattr(agent, "usage", None)
    if usage is not None:
        return usage.prompt_tokens + usage.completion_tokens
    return getattr(agent, "tokens", 0)
