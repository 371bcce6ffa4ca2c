"""World models: what they read and write, their errors, and plans made in them."""

from __future__ import annotations

import string
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym import agents
from agentgym.agents import SearchAgent, View, WorldModel, make_agent, prediction_errors
from agentgym.agents.basic.world_model import Outcome, Transition
from agentgym.agents.search.simulator import ImaginedSimulator, Simulator
from agentgym.errors import ConfigError
from agentgym.evaluation.runner import EpisodeRunner
from agentgym.registration.making import make_env

NUMBERS = st.integers(-3000, 3000).map(lambda n: n / 1000)
OUTCOMES = st.builds(
    Outcome,
    observation=st.text(max_size=30),
    reward=NUMBERS,
    progress=NUMBERS,
    over=st.booleans(),
    success=st.booleans(),
    admissible=st.lists(st.text(max_size=8), max_size=3).map(tuple),
)


@settings(deadline=None)
@given(OUTCOMES)
def test_an_outcome_is_read_as_it_was_written(outcome: Outcome):
    assert Outcome.read(outcome.write()) == outcome


@settings(deadline=None)
@given(st.text(max_size=40) | st.text(string.digits + '{}[]":,eEN\n', max_size=40))
@example("{}")
def test_any_reply_is_read(text: str):
    found = Outcome.read(text)
    assert text.startswith(found.observation)
    last = text.rpartition("\n")[2]
    assert found.observation == text or last.lstrip().startswith("{")


@pytest.mark.parametrize(
    "line", ['{"reward": true}', '{"reward": NaN}', '{"reward": 1e999}', '{"actions": 3}', "{}"]
)
def test_wrong_values_are_left_out(line: str):
    assert Outcome.read(f"page\n{line}") == Outcome("page")


class Walker:
    """Predicts NumberLine from the question alone, wrongly above `limit` or with long strides."""

    name = "walker"

    def __init__(self, limit: int = 10**9, stride: int = 1):
        self.limit, self.stride, self.asked = limit, stride, 0

    def act(self, views: Sequence[View]) -> list[str]:
        self.asked += len(views)
        return [self._predict(view) for view in views]

    def _predict(self, view: View) -> str:
        page, action = view.observation.split("\n\n")[:2]
        assert not view.info["admissible"]
        at, target = (int(word.strip(".")) for word in page.split() if word.strip(".").isdigit())
        at += self.stride if action == "> +" else -1
        at = min(max(at, 0), 9) if at <= self.limit else 0
        done, text = at == target, f"You are at {at}. Go to {target}."
        progress = 1 - abs(at - target) / 10
        return Outcome(text + " Done!" * done, float(done), progress, done, done).write()


def transitions(count: int) -> list[Transition]:
    """Returns steps up of NumberLine."""
    found = []
    for seed in range(count):
        view = View.start(make_env("NumberLine-v0"), f"test/{seed}", seed)
        with Simulator(view, 1) as sim:
            node = sim.step(sim.root, "+")
        outcome = Outcome(
            node.observation, node.reward, node.info["progress"], node.over, node.solved,
            node.info["admissible"],
        )  # fmt: skip
        found.append(Transition(view.instructions, (), view.observation, "+", outcome))
    return found


def test_the_errors_of_a_world_model():
    held_out = transitions(30)
    good = prediction_errors(WorldModel(Walker()), held_out)
    assert (good["exact"], good["words"], good["reward_error"], good["over"]) == (1, 1, 0, 1)
    assert 0 < good["copied"] < 0.3  # at the upper end of the line
    bad = prediction_errors(WorldModel(Walker(limit=5)), held_out)
    wrong = [each for each in held_out if "at 0" not in each.outcome.observation]
    high = [each for each in wrong if int(each.outcome.observation[11]) > 5]
    assert bad["exact"] == 1 - len(high) / 30 < 1
    assert bad["exact"] < bad["words"] < 1


def played(agent: SearchAgent, seed: int) -> EpisodeRunner:
    """Returns a finished episode."""
    episode = EpisodeRunner(make_env("NumberLine-v0"), f"test/{seed}", seed)
    while not episode.play(agent.act([episode.view])[0]):
        pass
    return episode


@pytest.mark.parametrize("algorithm", ["best_first", "astar", "mcts", "beam"])
def test_plans_are_made_in_the_model_alone(algorithm: str, monkeypatch: pytest.MonkeyPatch):
    world = Walker()
    with monkeypatch.context() as patch:
        patch.setattr(Simulator, "step", lambda *_: pytest.fail("the environment was used"))
        agent = SearchAgent(algorithm, budget=40, world=world)
        records = [played(agent, seed).record() for seed in (1, 2)]
    assert all(record.success for record in records)
    costs = [record.costs for record in records]
    assert sum(cost["predicted_steps"] for cost in costs) == world.asked > 0
    assert not any(cost.get("search_steps") or cost.get("plans_given_up") for cost in costs)


def test_a_plan_is_given_up_when_the_model_was_wrong():
    def begins(seed: int) -> str:
        return View.start(make_env("NumberLine-v0"), f"test/{seed}", seed).observation

    seed = next(n for n in range(999) if begins(n) == "You are at 3. Go to 8.")
    episode = played(SearchAgent("best_first", budget=30, world=Walker(stride=2)), seed)
    costs = episode.view.costs
    assert costs["searches"] > costs["plans_given_up"] > 0
    assert episode.record().success


def test_predicted_states_are_marked_and_keep_the_listed_actions():
    view = View.start(make_env("NumberLine-v0"), "test/1", 1)
    with ImaginedSimulator(view, 2, WorldModel(Walker())) as sim:
        node = sim.step(sim.step(sim.root, "+"), "-")
    assert node.info["predicted"] is True and node.info["turn"] == 2
    assert node.info["admissible"] == view.info["admissible"] and node.key == view.observation
    assert [action for _, action in sim.view_of(node).history] == ["+", "-"]
    assert sim.stopped


def test_a_model_that_writes_nonsense_raises_nothing():
    class Confused:
        name = "confused"

        def act(self, views: Sequence[View]) -> list[str]:
            return ["?" * int(view.rng.integers(3)) for view in views]

    for algorithm in ("best_first", "mcts"):
        record = played(SearchAgent(algorithm, budget=5, world=Confused()), 1).record()
        assert record.turns > 0


def test_a_model_does_not_know_the_future():
    with pytest.raises(ConfigError, match="leave out future or world"):
        SearchAgent("mcts", world=Walker(), future="known")


def test_a_limit_of_predictions_reaches_any_policy_and_is_refused_elsewhere(monkeypatch):
    def load(name: str, *, temperature: float = 1.0, max_new_tokens: int = 8) -> Walker:
        walker = Walker()
        walker.name = f"{name} {temperature} {max_new_tokens}"
        return walker

    monkeypatch.setattr(agents, "load_env_creator", lambda entry: load)
    for model in ("folder", "policy:folder", "model:folder"):
        for words, limit in (("", 256), (",world_tokens=5", 5)):
            agent = make_agent(f"search:mcts,world={model}{words}")
            assert isinstance(agent, SearchAgent) and agent.world
            assert agent.world.name == f"world:folder 0.0 {limit}"
    for model in ("", ",policy=folder", ",world=chat:x@http://localhost:1"):
        with pytest.raises(ConfigError, match="give world=FOLDER"):
            make_agent(f"search:mcts{model},world_tokens=5")
