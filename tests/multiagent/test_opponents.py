"""Agents and functions in the other seats of a single-seat environment."""

from __future__ import annotations

import copy
import json

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from agentgym.agents import MixedAgent, RandomAgent, ScriptedAgent, View
from agentgym.agents.scaffolds import PlanExecuteAgent
from agentgym.errors import AgentGymError, ConfigError, SnapshotError
from agentgym.evaluation import evaluate
from agentgym.registration.single_seat import SingleSeat


class Watcher:
    """Plays the first admissible action and keeps all it sees."""

    name = "watcher"

    def __init__(self):
        self.seen: list[tuple[str, list[tuple[str, str]]]] = []

    def act(self, views):
        self.seen += [(view.observation, list(view.history)) for view in views]
        return [view.info["admissible"][0] for view in views]


def lowest(view: View) -> str:
    return view.info["admissible"][0]


def make(opponents, id="TicTacToe-v0", **kwargs) -> SingleSeat:
    env = gymnasium.make(f"AgentGym/{id}", opponents=opponents, **kwargs).unwrapped
    assert isinstance(env, SingleSeat)
    return env


def play(env: SingleSeat, seed: int = 0, task: str | None = None) -> list[str]:
    options = None if task is None else {"task": task}
    seen, done = [env.reset(seed=seed, options=options)[0]], False
    while not done:
        observation, _, terminated, truncated, _ = env.step(env.game.seen(env.agent).admissible[-1])
        seen.append(observation)
        done = terminated or truncated
    return seen


@pytest.mark.parametrize("opponents", [lowest, Watcher(), {"player_1": lowest}])
def test_an_agent_or_a_function_plays_the_other_seat(opponents):
    env = make(opponents, seat="player_0")
    env.reset(seed=0, options={"task": "opening/"})
    observation, *_ = env.step("5")
    assert " O | 2 | 3" in observation


def test_an_opponent_sees_its_own_seat_and_history():
    watcher = Watcher()
    env = make(watcher, "KuhnPoker-v0", seat="player_1", hands=2)
    env.reset(seed=3)
    cards = [env.game.state.deals[0][0], env.game.state.deals[1][1]]
    done = False
    while not done:
        observation = env.game.seen("player_1").admissible[-1]
        done = env.step(observation)[2]
    first = watcher.seen[0][0]
    assert f"Your card is {'JQK'[cards[0]]}" in first and watcher.seen[0][1] == []
    assert watcher.seen[-1][1][0] == (first, "check")
    assert f"Your card is {'JQK'[cards[1]]}" in watcher.seen[-1][0]


@pytest.mark.parametrize("id", ["KuhnPoker-v0", "LiarsDice-Four-v0", "PrisonersDilemma-v0"])
def test_levels_and_scripted_agents_are_the_same(id):
    level = "random" if "Dilemma" not in id else "tit_for_tat"
    by_name, by_agent = make(level, id), make(ScriptedAgent(level), id)
    assert play(by_name) == play(by_agent)
    assert by_agent.opponents == by_name.opponents and not by_agent.players


class Planner(Watcher):
    """Writes a plan if it is asked for a text, else plays the first admissible action."""

    def act(self, views):
        self.seen += [(view.observation, list(view.history)) for view in views]
        return [(view.info["admissible"] or ("Take a corner.",))[0] for view in views]


def test_a_scaffold_around_an_agent_plays_a_seat():
    """The plan is written once, from its own seat, and every turn is asked with it."""
    planner = Planner()
    env = make(PlanExecuteAgent(planner), seat="player_0")
    env.reset(seed=0, options={"task": "opening/"})
    env.step("5")
    env.step("9")
    texts = [observation for observation, _ in planner.seen]
    assert ["Write a plan" in text for text in texts] == [True, False, False]
    assert [len(history) for _, history in planner.seen] == [0, 0, 1]
    by_word = make("plan_execute:random", seat="player_0")
    assert "plan_execute:random" in str(by_word.spec) and play(by_word) == play(by_word)
    with pytest.raises(ConfigError, match="makes several attempts at a task"):
        make("reflexion:random")


def test_episodes_with_agents_are_reproducible():
    env, other = make(RandomAgent()), make(RandomAgent())
    assert play(env, 5) == play(other, 5) == play(env, 5)
    assert play(env, 5, "opening/") != play(env, 6, "opening/")
    check_env(make(RandomAgent()), skip_render_check=True)


def test_a_snapshot_holds_the_turns_of_the_opponent():
    watcher, again = Watcher(), Watcher()
    env, other = make(watcher, seat="player_0"), make(again, seat="player_0")
    env.reset(seed=0, options={"task": "opening/"})
    env.step("5")
    snapshot = json.loads(json.dumps(env.snapshot()))
    after = env.step("9")[:3]
    other.reset(seed=1)
    other.restore(snapshot)
    assert other.step("9")[:3] == after
    assert again.seen[-1] == watcher.seen[-1] and len(again.seen[-1][1]) == 1
    with pytest.raises(SnapshotError, match=r"the opponents are .*watcher.*, expected .*lowest"):
        make(lowest, seat="player_0").restore(snapshot)
    with pytest.raises(SnapshotError, match="scripted players are"):
        make("greedy", seat="player_0").restore(snapshot)


class Corner(Watcher):
    """Plays the first admissible action, or the last one."""

    def __init__(self, name: str, place: int):
        self.name, self.place = name, place

    def act(self, views):
        return [view.info["admissible"][self.place] for view in views]


def league() -> MixedAgent:
    inner = MixedAgent([Corner("first", 0), Corner("last", -1)], [1, 1])
    return MixedAgent([inner, Corner("second", 1)], [2, 1])


def test_a_mixed_opponent_is_the_same_member_in_a_restored_or_copied_episode():
    """And it samples nothing anew: the random numbers of the rest stay as they are."""
    for seed in range(12):
        env, other = make(league(), seat="player_0"), make(league(), seat="player_0")
        env.reset(seed=seed, options={"task": "opening/"})
        env.step("5")
        snapshot, twin = json.loads(json.dumps(env.snapshot())), copy.deepcopy(env)
        other.restore(snapshot)
        action = env.game.seen("player_0").admissible[3]
        after = env.step(action), env.np_random.random()
        assert (other.step(action), other.np_random.random()) == after
        assert (twin.step(action), twin.np_random.random()) == after
        env.restore(snapshot)
        assert (env.step(action), env.np_random.random()) == after


def test_a_snapshot_without_the_memory_of_opponents_is_read():
    env = make(lowest, seat="player_0")
    env.reset(seed=0, options={"task": "opening/"})
    snapshot = env.snapshot()
    del snapshot["state"]["memories"]
    assert env.restore(snapshot)[0] and env.state.memories == {}


@pytest.mark.parametrize("member", [2, -1, "first", None, [0]])
def test_a_member_that_there_is_not_is_sampled_anew(member):
    env = make(MixedAgent([Corner("a", 0), Corner("a", 0)], [1, 1]), seat="player_0")
    env.reset(seed=0, options={"task": "opening/"})
    env.step("5")
    [key] = env.state.memories["player_1"]
    snapshot = env.snapshot()
    snapshot["state"]["memories"]["player_1"][key] = member
    env.restore(snapshot)
    env.step("9")
    assert env.state.memories["player_1"][key] in (0, 1)


def test_the_spec_names_the_opponent():
    env = gymnasium.make("AgentGym/TicTacToe-v0", opponents=lowest)
    assert env.spec is not None
    assert env.spec.kwargs["opponents"] == {"player_0": "lowest", "player_1": "lowest"}
    assert "lowest" in env.spec.to_json()
    with pytest.raises(ConfigError, match="Unknown agent 'lowest'"):
        gymnasium.make(env.spec)


def test_the_expert_knows_scripted_opponents_only():
    assert make("greedy").game.opponents
    assert not make({"player_1": lowest}).game.opponents


def test_the_expert_knows_no_levels_if_several_seats_are_played_from_outside():
    env = make("maniac", "KuhnPoker-v0", seat="player_0")
    env.reset(seed=0)
    task, snapshot = env.tasks.train[0], env.snapshot()
    played = set()
    for seed in range(3):
        table = env.open_table(task, seed, env.game.possible_agents)
        while not table.over:
            actions = {agent: str(env.game.expert(agent)) for agent in table.acting}
            table.play(actions)
            played |= {*actions.values()}
    assert played == {"check", "bet", "fold", "call"}, "not the best response to a maniac"
    env.open_table(task, 0, ["player_0"])
    assert env.game.opponents
    env.open_table(task, 0, env.game.possible_agents)
    assert not env.game.opponents
    env.restore(snapshot)
    assert env.game.opponents
    env.open_table(task, 0, env.game.possible_agents)
    env.reset()
    assert env.game.opponents


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vector_environments_take_functions(mode):
    envs = gymnasium.make_vec("AgentGym/TicTacToe-v0", 2, vectorization_mode=mode, opponents=lowest)
    try:
        observations, _ = envs.reset(seed=0)
        assert len(observations) == 2
        envs.step(["5", "9"])
    finally:
        envs.close()


def test_an_agent_is_evaluated_against_an_agent():
    kwargs = {"opponents": lowest, "seat": "player_0"}
    report = evaluate("TicTacToe-v0", "expert", tasks=["opening/"], env_kwargs=kwargs)
    assert report.episodes[0].success
    assert "lowest" in json.dumps(report.to_json())


@pytest.mark.parametrize(
    ("opponents", "message"),
    [
        ("gredy", "Unknown agent 'gredy' for TicTacToe. Did you mean: greedy"),
        ({"player_1": "unknowns"}, "Did you mean: unknown"),
        ({"player_7": lowest}, "must name agents .*got 'player_7'"),
        (3, "got 3 "),
        ("chat:model", "A chat agent is written chat:MODEL@URL"),
    ],
)
def test_wrong_opponents_are_named(opponents, message):
    with pytest.raises(AgentGymError, match=message):
        make(opponents)


@pytest.mark.parametrize("answer", [None, 5, ["5"]])
def test_an_opponent_must_answer_with_a_string(answer):
    env = make(lambda view: answer, seat="player_0")
    env.reset(seed=0, options={"task": "opening/"})
    with pytest.raises(TypeError, match=r"Opponent '<lambda>' must return one action, a string"):
        env.step("1")


def test_the_opponent_of_a_table_is_that_of_its_episode_alone():
    env = make("greedy", seat="player_0")
    env.open_table("opening/", 0, ["player_0"], "optimal")
    assert set(env.state.levels.values()) == {"optimal"}
    env.open_table("opening/", 0, ["player_0"])
    assert set(env.state.levels.values()) == {"greedy"}
    env.open_table("opening/", 0, ["player_0"], "optimal")
    env.reset(seed=0, options={"task": "opening/"})
    assert set(env.state.levels.values()) == {"greedy"} == set(env.opponents.values())
