"""Search agents: the real episode stays as it was, plans are honest, budgets are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents import ExpertAgent, RandomAgent, SearchAgent, View, make_agent
from agentgym.agents.search.guide import SearchGuide, Value
from agentgym.agents.search.simulator import Node, Simulator, state_key
from agentgym.agents.search.tree import beam
from agentgym.core import TextEnv
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.evaluation import Record, evaluate
from agentgym.evaluation.runner import EpisodeRunner
from agentgym.registration.making import make_env
from agentgym.spaces import UnicodeText
from agentgym.tasks import Tasks
from agentgym.textify import textify
from agentgym.time_step import TimeStep
from agentgym.wrappers import ExtractAction, HistoryObservation

COMPLETE = ("best_first", "astar", "mcts")
"""Algorithms that give up no state."""
ALGORITHMS = (*COMPLETE, "beam")
IDS = (
    "Sokoban-v0 WebShop-v0 TextCraft-v0 Household-v0 Blocksworld-v0 TicTacToe-v0 KuhnPoker-v0 "
    "FrozenLake-v0 Blackjack-v0"
).split()


def played(env: Any, agent: Any, seed: int, turns: int) -> tuple[list[Any], list[str]]:
    """Plays an episode and returns its results and the actions."""
    tasks = env.get_wrapper_attr("tasks").train
    task = str(tasks[seed % len(tasks)])
    episode, results = EpisodeRunner(env, task, seed), []
    for _ in range(turns):
        [action] = agent.act([episode.view])
        over = episode.play(action)
        env_state = env.get_wrapper_attr("snapshot")()
        results.append(
            (episode.view.observation, episode.rewards[-1], episode.view.info, env_state)
        )
        if over:
            break
    return results, [action for _, action in episode.view.history]


class Replay:
    """Plays recorded actions."""

    name = "replay"

    def __init__(self, actions: list[str]):
        self.actions = actions

    def act(self, views: Sequence[View]) -> list[str]:
        return [self.actions[len(view.history)] for view in views]


@settings(max_examples=30, deadline=None)
@given(
    id=st.sampled_from(IDS),
    algorithm=st.sampled_from(ALGORITHMS),
    value=st.sampled_from(["progress", "random"]),
    future=st.sampled_from(["sampled", "known"]),
    seed=st.integers(0, 5),
    wrapped=st.booleans(),
)
def test_the_real_episode_is_that_of_the_chosen_actions(
    id: str, algorithm: str, value: Any, future: Any, seed: int, wrapped: bool
):
    """Observations, rewards, infos and snapshots, random state included."""

    def make() -> Any:
        env = make_env(id)
        return HistoryObservation(env, k=2) if wrapped else env

    agent = SearchAgent(algorithm, budget=12, value=value, future=future)
    results, actions = played(make(), agent, seed, turns=3)
    assert played(make(), Replay(actions), seed, turns=3) == (results, actions)


def test_an_error_in_the_search_leaves_the_episode_as_it_was():
    class Broken(RandomAgent):
        def act(self, views):
            raise OSError("no server")

    view = View.start(make_env("Sokoban-v0"), "train/1", 3)
    before = view.env.get_wrapper_attr("snapshot")()
    with pytest.raises(OSError, match="no server"):
        SearchAgent("mcts", value="policy", policy=Broken()).act([view])
    with Simulator(view, 5) as sim, pytest.raises(TypeError):
        sim.step(sim.step(sim.root, "left"), None)  # type: ignore[arg-type]
    assert view.env.get_wrapper_attr("snapshot")() == before


@dataclasses.dataclass
class Coins:
    """State of `CoinFlips`."""

    flips: int = 0
    heads: int = 0


class CoinFlips(TextEnv):
    """Call a fair coin, three times, or leave with a small prize."""

    instructions = "Call the coin."
    tasks = Tasks(train=("a",), test=("b",))
    State = Coins
    state: Coins

    def _start(self, task: str) -> TimeStep:
        self.state = Coins()
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        if action == "leave":
            return self._look(progress=0.75, terminated=True)
        fell = ("heads", "tails")[int(self.np_random.integers(2))]
        if fell != action:
            return self._look(progress=0.0, terminated=True)
        self.state.flips += 1
        won = self.state.flips == 3
        return self._look(progress=1.0 if won else 0.5, terminated=won, success=won)

    def _look(self, **kwargs: Any) -> TimeStep:
        actions = ("heads", "tails", "leave")
        text = f"{self.state.flips} right."
        given: dict[str, Any] = {"progress": 0.5} | kwargs
        step = TimeStep(text, admissible=actions, **given)
        return dataclasses.replace(step, rewards={"task": step.progress if step.terminated else 0})


@dataclasses.dataclass
class Saved:
    first: str = ""
    turn: int = 0


class Savings(TextEnv):
    """A reward at once or a larger one at the end, and a small one in each turn between."""

    instructions = "Save."
    tasks = Tasks(train=("a",), test=("b",))
    State = Saved
    state: Saved
    REWARDS: ClassVar = {"now": (1.0, 0.25, 0.0), "later": (0.5, 0.25, 2.0)}

    def _start(self, task: str) -> TimeStep:
        self.state = Saved()
        return TimeStep("Start.", admissible=("now", "later"))

    def _advance(self, action: str) -> TimeStep:
        state = self.state
        state.first = state.first or action
        reward = self.REWARDS[state.first][state.turn]
        state.turn += 1
        given: dict[str, Any] = {"terminated": state.turn == 3, "rewards": {"task": reward}}
        return TimeStep(f"Turn {state.turn}.", admissible=("go", "wait"), **given)


class ExactJudge(RandomAgent):
    """Scores an action by the return of the whole episode, or of the rest."""

    def __init__(self, whole: bool):
        self.whole = whole

    def probabilities(self, views: Sequence[View]) -> list[Any]:
        return [np.full(len(view.info["admissible"]), 0.5) for view in views]

    def scores(self, views: Sequence[View], actions: Sequence[str]) -> list[float]:
        found = []
        for view, action in zip(views, actions, strict=True):
            played = [earlier for _, earlier in view.history]
            rewards = Savings.REWARDS[(played or [action])[0]]
            found.append(sum(rewards if self.whole else rewards[len(played) :]))
        return found


@pytest.mark.parametrize("whole", [True, False])
def test_a_judge_counts_no_reward_twice(whole: bool, monkeypatch: pytest.MonkeyPatch):
    """Each value is the return from the search on, before the end of the episode and at it."""
    real, values = SearchGuide.evaluate, []

    def watched(guide: SearchGuide, nodes: Sequence[Node]) -> None:
        real(guide, nodes)
        earned = sum(episode.rewards)
        for node in nodes:
            if node.parent is not None:
                actions = [*episode.view.history, *((None, n.action) for n in node.path)]
                total = sum(Savings.REWARDS[actions[0][1]])
                values.append((node.depth, node.over, node.value, total - earned))

    monkeypatch.setattr(SearchGuide, "evaluate", watched)
    agent = SearchAgent("beam", value="judge", policy=ExactJudge(whole), budget=16, beams=2)
    episode = EpisodeRunner(Savings(), "a", 0)
    for _ in range(3):
        for remembered in agent._episodes.values():
            remembered.plan.clear()  # searches again
        [action] = agent.act([episode.view])
        episode.play(action)
    assert episode.rewards == [0.5, 0.25, 2.0]
    assert {(depth, over) for depth, over, *_ in values} >= {(1, False), (2, False), (2, True)}
    for _, _, value, truth in values:
        assert value == pytest.approx(truth)


def flipped(agent: SearchAgent, seed: int) -> EpisodeRunner:
    """Returns a finished episode."""
    episode = EpisodeRunner(CoinFlips(), "a", seed)
    while not episode.play(agent.act([episode.view])[0]):
        pass
    return episode


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_search_does_not_see_the_future_unless_it_is_asked_to(algorithm: str):
    """Knowing the coins, every episode is won. Three fair coins are called right in an eighth."""

    def records(future: Any) -> list[Record]:
        agent = SearchAgent(algorithm, budget=40, future=future)
        return [flipped(agent, seed).record() for seed in range(12)]

    known, sampled = records("known"), records("sampled")
    assert all(episode.success for episode in known)
    assert sum(episode.success for episode in sampled) < 6
    assert all("plans_given_up" not in episode.costs for episode in known)


def test_mcts_weighs_chance_and_takes_the_safe_prize():
    agent = SearchAgent("mcts", budget=100)
    for seed in range(4):
        assert agent.act([View.start(CoinFlips(), "a", seed)]) == ["leave"]


def test_a_plan_is_given_up_when_chance_takes_another_course():
    """A plan of three calls ends the episode, or meets another state."""

    class Patient(CoinFlips):
        """Wrong calls begin again."""

        def _advance(self, action: str) -> TimeStep:
            step = super()._advance(action)
            if action == "leave" or step.progress:
                return step
            self.state.flips = 0
            return self._look()

    costs = []
    for seed in range(4):
        episode = EpisodeRunner(Patient(max_turns=12), "a", seed)
        agent = SearchAgent("best_first", budget=60)
        while not episode.play(agent.act([episode.view])[0]):
            pass
        costs.append(episode.record().costs)
    assert sum(cost.get("plans_given_up", 0) for cost in costs) > 0
    assert all(cost["searches"] > cost.get("plans_given_up", 0) for cost in costs)


@pytest.mark.parametrize("algorithm", COMPLETE)
def test_a_search_within_its_budget_solves_the_task(algorithm: str):
    report = evaluate("Sokoban-v0", f"search:{algorithm},budget=600", tasks=4)
    assert all(episode.success for episode in report.episodes)
    for episode in report.episodes:
        assert 0 < episode.costs["search_steps"] <= 600 * episode.costs["searches"]
    assert report.aggregate()["cost/search_steps"].mean > 0
    assert "search steps" in str(report)


class Slope:
    """Values states by numbers, and counts the states that are expanded at each depth."""

    def __init__(self, values: dict[str, float], beams: int):
        self.values, self.beams, self.visited = values, beams, set()
        self.exploration = self.turns = 0.0
        self.expanded: list[tuple[str, ...]] = []

    def propose(self, node: Any) -> list[str]:
        self.expanded.append(tuple(each.action for each in node.path))
        return ["-", "+"]

    def evaluate(self, nodes: Any) -> None:
        for node in nodes:
            node.value = self.values.get("".join(each.action for each in node.path), 0.0)


def test_a_limit_of_gymnasium_counts_the_turns_of_the_episode_only():
    limited = lambda **kwargs: gymnasium.make("AgentGym/Blocksworld-v0", **kwargs)  # noqa: E731
    for agent in ("search:best_first,budget=60", "search:mcts,budget=60"):
        one = evaluate(lambda: limited(max_episode_steps=8), agent, tasks=2)
        other = evaluate(lambda: limited(max_turns=8), agent, tasks=2)
        assert one.episodes == other.episodes


def test_beam_search_keeps_the_best_states_of_each_depth():
    view = View.start(make_env("NumberLine-v0", size=30), "train/1", 3)
    values = {"-": 0.1, "+": 0.9, "--": 0.8, "++": 0.2, "---": 0.7, "+++": 0.1}
    for beams, expanded in [
        (1, ["", "+", "++", "+++"]),
        (2, ["", "+", "-", "--", "++", "---", "+++"]),
    ]:
        guide = Slope(values, beams)
        with Simulator(view, 2 * len(expanded)) as sim:
            plan = beam(sim, guide)
        assert ["".join(each) for each in guide.expanded] == expanded
        assert plan[0].action == "+"  # the state with the highest value of all


def test_best_first_finds_the_way_and_follows_it_without_searching_again():
    report = evaluate(lambda: NumberLine(size=8), "search:best_first,budget=200", tasks=5)
    assert all(e.success and e.costs["searches"] == 1 for e in report.episodes)


def test_equal_states_have_equal_keys_whatever_turn_it_is():
    env = make_env("Sokoban-v0")
    view = View.start(env, "train/3", 1)
    with Simulator(view, 50) as sim:
        children = [sim.step(sim.root, action) for action in view.info["admissible"]]
        moved = [child for child in children if child.key != sim.root.key]
        back = {"left": "right", "right": "left", "up": "down", "down": "up"}
        returned = [sim.step(child, back[child.action]).key for child in moved]
    assert moved and sim.root.key in returned
    game = make_env("KuhnPoker-v0")
    keys = []
    for seed in (1, 1, 2):
        game.reset(seed=seed, options={"task": "train/3"})
        game.unwrapped.reseed(seed)  # type: ignore[attr-defined]
        keys.append(state_key(game.get_wrapper_attr("snapshot")()))
    assert keys[0] == keys[1]


class Uniform:
    """Prefers late admissible actions, and counts its tokens."""

    name = "uniform"
    tokens = 0

    def act(self, views: Sequence[View]) -> list[str]:
        self.tokens += 10 * len(views)
        return RandomAgent().act(views)

    def probabilities(self, views: Sequence[View]) -> list[Any]:
        self.tokens += 10 * len(views)
        counts = [len(view.info["admissible"]) for view in views]
        return [np.arange(1, n + 1) / sum(range(1, n + 1)) for n in counts]

    def values(self, views: Sequence[View]) -> list[float]:
        return [float(len(view.history)) for view in views]


class Doubtful(ExpertAgent):
    """Proposes an action of its own beside the expert's."""

    def act(self, views: Sequence[View]) -> list[str]:
        others = [view.info["admissible"][-1] for view in views[1:]]
        return [*super().act(views[:1]), *others]


@pytest.mark.parametrize("algorithm", ["best_first", "beam", "mcts"])
@pytest.mark.parametrize("value", ["progress", "policy"])
def test_an_expert_is_asked_in_the_state_that_the_search_expands(algorithm: str, value: Value):
    agent = SearchAgent(algorithm, budget=80, policy=Doubtful(), width=2, value=value)
    report = evaluate("Blocksworld-v0", agent, tasks=3)
    assert [each.success for each in report.episodes] == [True] * 3


def test_a_policy_proposes_its_most_probable_actions_and_its_tokens_count():
    policy = Uniform()
    view = View.start(make_env("Household-v0"), "train/3", 1)
    agent = SearchAgent("best_first", policy=policy, width=2, budget=2)
    [action] = agent.act([view])
    assert action in view.info["admissible"][-2:]
    assert view.costs == {"searches": 1, "search_steps": 2, "search_tokens": 10}
    limited = SearchAgent("best_first", policy=policy, width=3, budget=50, tokens=20)
    view = View.start(make_env("Household-v0"), "train/3", 1)
    limited.act([view])
    assert view.costs == {"searches": 1, "search_steps": 6, "search_tokens": 20}


def test_a_critic_leads_the_search():
    """This critic values depth: 8 steps are 4 expansions, one below the other."""
    episode = EpisodeRunner(NumberLine(size=60), "train/30", 1)
    agent = SearchAgent("best_first", policy=Uniform(), value="critic", budget=8)
    for _ in range(4):
        episode.play(agent.act([episode.view])[0])
    assert episode.view.costs["searches"] == 1
    agent.act([episode.view])
    assert episode.view.costs["searches"] == 2


def test_actions_are_written_in_the_answer_format():
    env = ExtractAction(NumberLine(size=4), "tags")
    report = evaluate(lambda: env, "search:mcts", tasks=1, num_envs=1)
    assert report.episodes[0].success and report.episodes[0].valid == 1


def test_specifications_hold_options():
    agent = make_agent("search:mcts,budget=7,value=random", rollouts=2)
    assert isinstance(agent, SearchAgent)
    assert (agent.budget, agent.settings.value, agent.settings.rollouts) == (7, "random", 2)
    assert agent.name == "search:mcts,budget=7,value=random"
    assert make_agent("search:mcts,policy=expert").settings.policy.name == "expert"  # type: ignore


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("search:mtcs", "Unknown search 'mtcs'.*mcts"),
        ("search:", "Unknown search ''"),
        ("search:mcts,budget=0", "budget must be at least 1, got 0"),
        ("search:mcts,exploration=-1", "exploration must be at least 0"),
        ("search:mcts,value=policy", "needs a policy with a method `act`"),
        ("search:mcts,value=critic,policy=random", "method `values`"),
        ("search:mcts,value=judge,policy=random", "method `scores`"),
        ("search:mcts,value=good", "Argument 'value'"),
        ("search:mcts,depth=3", "unexpected keyword argument 'depth'"),
        ("search:mcts,budget", "Unknown search|key=value"),
    ],
)
def test_specifications_that_cannot_work_are_explained(spec: str, message: str):
    with pytest.raises((ConfigError, TypeError), match=message):
        make_agent(spec)


def test_environments_that_cannot_be_searched_are_explained():
    class Open(NumberLine):
        def _look(self):
            return dataclasses.replace(super()._look(), admissible=())

    with pytest.raises(ConfigError, match="lists no admissible actions"):
        SearchAgent("mcts").act([View.start(Open(), "train/3", 1)])
    view = View.of_text("", "", info={"admissible": ("a",)})
    with pytest.raises(ConfigError, match="needs snapshots"):
        SearchAgent("mcts").act([view])
    bare: Any = gymnasium.Env()
    bare.observation_space = bare.action_space = UnicodeText()
    view.env = HistoryObservation(bare)
    with pytest.raises(ConfigError, match="needs snapshots"):
        SearchAgent("mcts").act([view])
    lake = gymnasium.make("FrozenLake-v1")
    view = View.start(
        textify(lake, actions=("left", "down", "right", "up"), describe=lambda at, env: str(at)),
        "train/3",
        1,
    )
    with pytest.raises(ConfigError, match="needs future=known"):
        SearchAgent("mcts").act([view])
    assert SearchAgent("mcts", future="known").act([view])
