"""Teams: the order of roles, checks, shared rewards and the limits of the environment."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest

import agentgym
from agentgym.envs.team.roles import TEAMS, Role, as_roles
from agentgym.envs.team.team import TeamGame
from agentgym.errors import ConfigError, SnapshotError

NOTE = {"name": "thinker", "kind": "note", "instructions": "Think."}
ACT = {"name": "actor", "kind": "act", "instructions": "Act."}
CHECK = {"name": "critic", "kind": "check", "instructions": "Check."}
SCORE = {"name": "scorer", "kind": "score", "instructions": "Score."}


class Echo(gymnasium.Env[str, str]):
    """A plain environment with texts, which `textify` adapts."""

    observation_space = action_space = gymnasium.spaces.Text(20)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return "Begin.", {}

    def step(self, action: str):
        return action, 0.0, False, False, {}


def team(roles, env="NumberLine-v0", **kwargs):
    game = TeamGame(env=env, roles=roles, **kwargs)
    game.reset(seed=0)
    return game


def says(game, *actions):
    """Plays the actions, each by the agent that acts, and returns the agents."""
    agents = []
    for action in actions:
        (agent,) = game.acting
        agents.append(agent)
        game.play({agent: action})
    return agents


def where(game):
    return game.inner.state.position


def test_the_thinker_is_read_by_the_reasoner_whose_action_is_played():
    game = team("thinker-reasoner")
    start, text = where(game), game.seen("player_0").text
    assert says(game, "Go\nup!") == ["player_0"]
    assert where(game) == start
    assert "thinker: Go up!" in game.seen("player_1").text
    assert game.seen("player_1").admissible == ("+", "-")
    assert not game.seen("player_0").admissible
    says(game, "+")
    assert where(game) == start + 1
    assert "Go up!" not in game.seen("player_0").text and game.acting == ("player_0",)
    assert text.splitlines()[0] == game.seen("player_0").text.splitlines()[0]


def test_a_dialogue_of_several_rounds_precedes_an_action():
    game = team("teacher-student", rounds=2)
    start = where(game)
    assert "Round 1 of 2. In the first round" in game.seen("player_0").text
    assert says(game, "From 1 to 3: +", "-") == ["player_0", "player_1"]
    assert where(game) == start and game.clock() == 0
    text = game.seen("player_0").text
    assert "Round 2 of 2." in text and "teacher: From 1 to 3: +" in text and "student: -" in text
    assert says(game, "No, up.", "+") == ["player_0", "player_1"]
    assert where(game) == start + 1 and game.clock() == 1
    assert "They act 2 times in turn" in game.instructions


def test_the_rewards_of_actions_that_are_tried_count_in_every_round():
    game = team("pioneer-observer", rounds=2)
    step = "+" if game.inner.state.target > where(game) else "-"
    while abs(where(game) - game.inner.state.target) > 1:
        says(game, step, step, step, step)
    rewards = []
    for action in (step, step, step, step):
        says(game, action)
        rewards.append(game.reward("player_0"))
    assert rewards == [1.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(("roles", "rounds"), [("proposer-checker", 2), ("thinker-reasoner", 0)])
def test_rounds_are_for_teams_whose_last_role_acts(roles, rounds):
    with pytest.raises(ConfigError, match=r"rounds must be at least 1.*a last role of kind"):
        TeamGame(roles=roles, rounds=rounds)


def test_the_last_proposal_is_played():
    game = team("generator-verifier-refiner")
    start = where(game)
    assert says(game, "-", "No, up.", "+") == ["player_0", "player_1", "player_2"]
    assert where(game) == start + 1


def test_the_team_gets_the_rewards_of_a_tried_action_which_is_taken_back():
    game, seen = team("pioneer-observer"), []
    start, target = where(game), game.inner.state.target
    step = "+" if target > start else "-"
    other = "-" if step == "+" else "+"
    while abs(where(game) - target) > 1:
        says(game, step, step)
    before, generator = game.inner.snapshot(), game.np_random.bit_generator.state
    assert says(game, step) == ["player_0"]
    assert (game.inner.snapshot(), game.np_random.bit_generator.state) == (before, generator)
    seen += [game.reward(agent) for agent in game.possible_agents]
    assert not game.over("player_0") and f"pioneer: {step}" in game.seen("player_1").text
    assert game.seen("player_1").admissible == ("+", "-")
    says(game, other)  # the observer knows no better
    seen += [game.reward(agent) for agent in game.possible_agents]
    assert seen == [1.0, 1.0, 0.0, 0.0] and not game.over("player_0")


def test_a_tried_action_that_ends_the_episode_is_not_rewarded_again_in_later_turns():
    game = team("pioneer-observer", "Countdown-v0")
    right, rewards = game.inner.expert(), []
    for answer in ("nonsense", "nonsense", right):  # invalid answers do not end the episode
        for action in (right, answer):
            says(game, action)
            rewards.append(game.reward("player_1"))
    assert game.over("player_0") and rewards == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]


def test_an_invalid_action_that_is_tried_is_charged_to_its_author():
    game = team("pioneer-observer", "Countdown-v0", invalid_penalty=0.5)
    says(game, "nonsense")
    assert not game.outcome("player_0").valid and game.outcome("player_1").valid
    assert (game.reward("player_0"), game.reward("player_1")) == (-0.5, 0.0)


def test_a_rejected_action_is_proposed_anew():
    game = team("proposer-checker", attempts=2)
    start = where(game)
    assert says(game, "-", "Reject: wrong Way.") == ["player_0", "player_1"]
    assert where(game) == start
    assert "checker: reject: wrong Way" in game.seen("player_0").text
    says(game, "+", "accept")
    assert where(game) == start + 1
    says(game, "-", "reject", "-", "reject")  # the last attempt is played anyway
    assert where(game) == start


def test_a_check_in_the_middle_accepts_at_once_or_passes_on():
    game = team([ACT, CHECK, ACT | {"name": "second"}])
    start = where(game)
    says(game, "+", "accept")
    assert where(game) == start + 1 and game.acting == ("player_0",)
    says(game, "+", "reject: no", "-")
    assert where(game) == start


def test_all_agents_get_the_reward_and_the_ending():
    game = team("proposer-checker", "Arithmetic-v0")
    says(game, game.inner.expert(), "accept")
    for agent in game.possible_agents:
        assert game.reward(agent) == 1 and game.terminated(agent) and game.seen(agent).success
    assert not game.acting


def test_a_memory_holds_the_last_actions_with_their_messages():
    game = team("thinker-reasoner", memory=2)
    assert "They remember the last 2 actions." in game.instructions
    first = game.inner._last.observation
    says(game, "Go up!", "+", "And down.", "-")
    text = game.seen("player_0").text
    before = f"Action 1. The observation was:\n{first}\nthinker: Go up!\nreasoner: +\nPlayed: +"
    assert f"{before}\n\nAction 2. The observation was:\n" in text
    assert text.endswith(f"thinker: And down.\nreasoner: -\nPlayed: -\n\n{first}")
    says(game, "Hm.", "+", "Up.")
    seen = game.seen("player_1").text
    assert "Go up!" not in seen and "And down." in seen and seen.endswith("\n\nthinker: Up.")
    other = team("thinker-reasoner", memory=2)
    other.restore(json.loads(json.dumps(game.snapshot())))
    assert other.seen("player_1") == game.seen("player_1")


def test_the_author_of_an_action_that_the_environment_refuses_pays():
    game = team("proposer-checker", "Arithmetic-v0", invalid_penalty=0.5)
    says(game, "no idea", "accept")
    assert [game.reward(agent) for agent in game.possible_agents] == [-0.5, 0]
    assert not game.outcome("player_0").valid and game.outcome("player_1").valid
    assert "Answer with one integer" in game.seen("player_0").observation
    says(game, "5")
    assert game.reward("player_0") == 0


def test_invalid_replies_are_asked_again():
    game = team("proposer-checker", "NumberLine-v0", max_invalid=2)
    says(game, "up")
    assert not game.outcome("player_0").valid and game.acting == ("player_0",)
    says(game, "+", "perhaps")
    assert "Reply accept" in game.seen("player_1").feedback and game.acting == ("player_1",)
    says(game, "perhaps")
    assert "last attempt" in game.seen("player_1").feedback


def test_a_scorer_gives_one_of_three_scores_and_the_action_is_played():
    game = team("solver-evaluator-scorer", "Arithmetic-v0", max_invalid=2)
    says(game, game.inner.expert(), "Is it prime?")
    assert game.seen("player_2").admissible == ("1", "2", "3")
    assert game.script("expert", "player_2", game.np_random) == "3"
    says(game, "0")
    assert not game.outcome("player_2").valid and game.acting == ("player_2",)
    says(game, "1.")
    assert game.reward("player_0") == 1 and not game.acting


@pytest.mark.parametrize("own", [None, 2, 9])
def test_the_limit_of_an_id_truncates_as_in_the_environment_alone(own: int | None):
    line = "agentgym.envs.numbers.number_line:NumberLine"
    gymnasium.register("Mine/ShortLine-v0", line, max_episode_steps=3, kwargs={"max_turns": own})
    try:
        alone = gymnasium.make("Mine/ShortLine-v0")
        alone.reset(seed=0, options={"task": "train/0"})
        away, steps = {"+": "-", "-": "+"}, 1
        while not alone.step(away[alone.unwrapped.expert()])[3]:  # type: ignore[attr-defined]
            steps += 1
        team: Any = agentgym.Team("Mine/ShortLine-v0", [NOTE, ACT])
        team.reset(seed=0, options={"task": "train/0"})
        for _ in range(2 * steps):
            team.step(away[team.game.inner.expert()])
        assert all(team.truncations.values())
        assert team.game.inner._turn == steps == min(own or 3, 3)
    finally:
        del gymnasium.registry["Mine/ShortLine-v0"]


def test_chance_of_the_environment_is_sampled_anew_or_refused():
    gymnasium.register("Mine/Echo-v0", lambda **_: Echo())
    try:
        team = gymnasium.make("AgentGym/Team-Countdown-v0", env="Mine/Echo-v0").unwrapped
        team.reset(seed=0)
        with pytest.raises(ConfigError, match="cannot be sampled anew"):
            team.reseed(1)  # type: ignore[attr-defined]
    finally:
        del gymnasium.registry["Mine/Echo-v0"]
    team = gymnasium.make("AgentGym/Team-NumberLine-v0").unwrapped
    team.reset(seed=0)
    team.reseed(1)  # type: ignore[attr-defined]
    assert team.np_random.bit_generator.state == np.random.PCG64(1).state


@pytest.mark.parametrize(
    ("name", "value"), [("split", "test"), ("invalid_penalty", 0.5), ("wrap", ["Monologue"])]
)
@pytest.mark.parametrize("id", ["Team-NumberLine-v0", "Retail-TwoPlayer-v0"])
def test_an_argument_of_the_environment_without_effect_is_refused(id: str, name: str, value: Any):
    with pytest.raises(ConfigError, match=f"{name} in env_kwargs has no effect"):
        agentgym.make_aec(id, env_kwargs={name: value})


def test_the_turn_limit_of_the_environment_truncates():
    game = team("thinker-reasoner", env_kwargs={"max_turns": 2})
    away = {"+": "-", "-": "+"}[str(game.inner.expert())]
    says(game, "", away, "", away)
    assert not game.acting
    for agent in game.possible_agents:
        assert game.truncated(agent) and not game.terminated(agent)
        assert not game.seen(agent).admissible
    again = team("thinker-reasoner", env_kwargs={"max_turns": 2})
    again.restore(json.loads(json.dumps(game.snapshot())))
    assert again.truncated("player_0") and not again.acting


@pytest.mark.parametrize("roles", TEAMS)
@pytest.mark.parametrize("env", ["TextCraft-v0", "Maze-v0", "TicTacToe-v0", "Wordle-v0"])
def test_a_team_of_experts_plays_as_well_as_the_expert(env, roles):
    game = team(roles, env)
    alone: Any = gymnasium.make(f"AgentGym/{env}").unwrapped
    alone.reset(seed=0, options={"task": game.info("player_0")["task"]})
    while game.acting:
        says(game, game.script("expert", game.acting[0], game.np_random))
    assert game.seen("player_0").success
    assert game.instructions.endswith(alone.instructions)


def test_a_snapshot_of_another_environment_is_refused_and_changes_nothing():
    game, other = team("thinker-reasoner"), team("thinker-reasoner", "Arithmetic-v0")
    says(game, "Hm.")
    before = game.snapshot()
    with pytest.raises(SnapshotError):
        game.restore(other.snapshot())
    assert game.snapshot() == before
    bad = json.loads(json.dumps(before))
    bad["state"]["env"]["state"] = {}
    with pytest.raises(SnapshotError):
        game.restore(bad)
    assert game.snapshot() == before
    says(game, "+")


def test_team_is_a_pettingzoo_environment():
    roles = [Role(**NOTE), Role(**ACT)]
    env = agentgym.Team("NumberLine-v0", roles, render_mode="ansi", invalid_penalty=0.1)
    env.reset(seed=0)
    assert env.possible_agents == ["player_0", "player_1"]
    assert isinstance(env.game, TeamGame)
    assert [env.game.role(agent) for agent in env.possible_agents] == ["thinker", "actor"]
    assert "- thinker (player_0): Think." in env.instructions
    env.step("Go.")
    assert "[thinker] Go." in str(env.render())
    assert env.agent_selection == "player_1"


def test_the_reflector_sends_an_action_back_to_the_planner():
    game = team("planner-actor-reflector")
    start = where(game)
    agents = says(game, "Go up.", "-", "reject: that is down", "Go up!", "+", "accept")
    assert agents == ["player_0", "player_1", "player_2"] * 2 and where(game) == start + 1


def test_each_named_team_is_valid():
    for name, roles in TEAMS.items():
        assert as_roles(list(roles)) == as_roles(name) == roles


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ("proposer-cheker", "Did you mean"),
        ([ACT], "at least two roles"),
        (3, "a list of roles, got 3"),
        ([ACT, ACT], "different names"),
        ([ACT, NOTE], "last role"),
        ([NOTE, CHECK], "last role must act"),
        ([CHECK, ACT], "must come after"),
        ([SCORE, ACT], "must come after"),
        ([NOTE, ACT | {"kind": "shout"}], "kind is one of"),
        ([NOTE, {"name": "actor"}], "has the texts"),
        ([NOTE, 3], "has the texts"),
    ],
)
def test_invalid_teams(roles, message):
    with pytest.raises(ConfigError, match=message):
        agentgym.Team("NumberLine-v0", roles)


def test_invalid_arguments():
    with pytest.raises(ConfigError, match="attempts"):
        TeamGame(attempts=0)
    with pytest.raises(ConfigError, match="memory must be at least 0, got -1"):
        TeamGame(memory=-1)
    with pytest.raises(ConfigError, match="num_players must be the number of roles, 3"):
        TeamGame(num_players=2)
    with pytest.raises(ConfigError, match="Unknown environment"):
        agentgym.Team("NumberLin-v0")
    with pytest.raises(ConfigError, match="sizes"):
        TeamGame(env_kwargs={"sizes": 3})


def test_a_copy_continues_independently():
    game = team("thinker-reasoner")
    twin, start = game.copy(), where(game)
    says(twin, "Go up!", "+")
    assert (where(twin), where(game)) == (start + 1, start)
    assert game.acting == ("player_0",) and not game.inner._turn


@pytest.mark.parametrize("reply", ["Accepted.", "Accepted: it is right", "Rejected: it is wrong"])
def test_a_checker_may_answer_in_the_past(reply: str):
    game = team("proposer-checker", attempts=2)
    start = where(game)
    says(game, "+", reply)
    assert where(game) == start + reply.startswith("Accepted")
