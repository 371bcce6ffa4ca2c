"""StagHunt, Chicken, RockPaperScissors: payoffs, simple players, best responses."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

import agentgym
from agentgym.envs.matrix import chicken, iterated, rock_paper_scissors, stag_hunt
from agentgym.evaluation import evaluate

STAG = ("StagHunt", stag_hunt)
CHICKEN = ("Chicken", chicken)
RPS = ("RockPaperScissors", rock_paper_scissors)
PAYOFFS = {
    "StagHunt": {
        ("stag", "stag"): 4,
        ("hare", "stag"): 3,
        ("hare", "hare"): 2,
        ("stag", "hare"): 0,
    },
    "Chicken": {
        ("straight", "swerve"): 5,
        ("swerve", "swerve"): 3,
        ("swerve", "straight"): 1,
        ("straight", "straight"): 0,
    },
    "RockPaperScissors": {
        ("rock", "rock"): 0,
        ("paper", "paper"): 0,
        ("scissors", "scissors"): 0,
        ("paper", "rock"): 1,
        ("scissors", "paper"): 1,
        ("rock", "scissors"): 1,
        ("rock", "paper"): -1,
        ("paper", "scissors"): -1,
        ("scissors", "rock"): -1,
    },
}


@pytest.mark.parametrize("name", PAYOFFS)
def test_what_every_pair_of_choices_pays(name):
    for (mine, theirs), gain in PAYOFFS[name].items():
        env = agentgym.make_parallel(f"{name}-v0")
        env.reset(options={"task": "rounds/4"})
        _, rewards, *_ = env.step({"player_0": mine, "player_1": theirs})
        assert rewards == {"player_0": gain / 4, "player_1": PAYOFFS[name][theirs, mine] / 4}


GAMES = {
    # Scissors would have paid 1 + 1 + 0, player_0 got -3. Player_1 was never beaten by one choice:
    # rock would have paid it 0 + 0 - 1, paper 1 + 1 + 0, scissors -1 - 1 + 1, and it got 3.
    "RockPaperScissors": (["rock paper", "rock paper", "paper scissors"], 5 / 3, -1 / 3),
    # Player_0: 3 + 0 + 3, and defection 5 + 1 + 5. Player_1: 3 + 5 + 3, and defection 3 * 5.
    "PrisonersDilemma": (
        ["cooperate cooperate", "cooperate defect", "cooperate cooperate"], 5 / 3, 4 / 3,
    ),
    # Player_0: 4 + 0 + 3 = 7, stag 4 + 0 + 4, hare 3 + 2 + 3. Player_1: 4 + 3 + 0, and 4 + 4 + 0.
    "StagHunt": (["stag stag", "stag hare", "hare stag"], 1 / 3, 1 / 3),
    # Both crash, then player_0 swerves: 0 + 1 + 1, swerving always 3. Player_1: 0 + 5 + 5.
    "Chicken": (["straight straight", "swerve straight", "swerve straight"], 1 / 3, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", GAMES)
def test_golden_external_regret(name):
    """The mean over rounds, in payoffs, against the co-player's choices as they were."""
    env = agentgym.make_parallel(f"{name}-v0")
    _, infos = env.reset(options={"task": "rounds/4"})
    assert [info["regret"] for info in infos.values()] == [0, 0]
    rounds, *regrets = GAMES[name]
    for pair in rounds:
        *_, infos = env.step(dict(zip(infos, pair.split(), strict=True)))
    assert [info["regret"] for info in infos.values()] == pytest.approx(regrets)


@pytest.mark.parametrize("id", ["RockPaperScissors-Talk-v0", "PrisonersDilemma-v0"])
def test_regret_is_reported_per_episode(id: str):
    report = evaluate(id, "random", tasks=6, env_kwargs={"opponents": "random"})
    regrets = [episode.costs["regret"] for episode in report.episodes]
    assert report.aggregate()["cost/regret"].mean == pytest.approx(sum(regrets) / 6)
    assert max(regrets) > 0 and all(isinstance(each, float) for each in regrets)
    assert f"per episode: regret {sum(regrets) / 6:.2f}" in " ".join(str(report).split())


@pytest.mark.parametrize(
    ("module", "level", "theirs", "expected"),
    [
        (stag_hunt, "stag", "hh", "sss"),
        (stag_hunt, "hare", "ss", "hhh"),
        (stag_hunt, "tit_for_tat", "hs", "shs"),
        (stag_hunt, "wary", "sh", "hsh"),
        (stag_hunt, "grim", "shs", "sshh"),
        (chicken, "swerve", "tt", "sss"),
        (chicken, "straight", "ss", "ttt"),
        (chicken, "tit_for_tat", "ts", "sts"),
        (chicken, "grim", "sts", "sstt"),
        (chicken, "bully", "tst", "tsts"),
        (rock_paper_scissors, "rock", "pp", "rrr"),
        (rock_paper_scissors, "cycle", "rrr", "rpsr"),
        (rock_paper_scissors, "copy", "ps", "rps"),
        (rock_paper_scissors, "counter", "psr", "rsrp"),
        (rock_paper_scissors, "frequency", "ssppp", "rrrrss"),
    ],
)
def test_simple_players_against_a_fixed_line_of_choices(module, level, theirs, expected):
    words = dict(zip("st" if module is chicken else "sh", module.CHOICES, strict=False))
    if module is rock_paper_scissors:
        words = {choice[0]: choice for choice in module.CHOICES}
    line, mine = [words[letter] for letter in theirs], []
    for i in range(len(expected)):
        mine.append(module.scripted(level, mine, line[:i]))
    assert mine == [words[letter] for letter in expected]


@pytest.mark.parametrize(
    ("name", "level", "least"),
    [
        ("StagHunt", "wary", 18 / 20 * 4 - 0.2),
        ("StagHunt", "hare", 1.8),
        ("StagHunt", "grim", 4.0),
        ("Chicken", "bully", 4.5),
        ("Chicken", "straight", 0.9),
        ("Chicken", "grim", 3.1),
        ("RockPaperScissors", "cycle", 0.9),
        ("RockPaperScissors", "counter", 0.85),
        ("RockPaperScissors", "frequency", 0.85),
    ],
)
def test_the_expert_finds_out_who_is_on_the_other_side(name, level, least):
    env: Any = gymnasium.make(
        f"AgentGym/{name}-v0", opponents=level, disable_env_checker=True
    ).unwrapped
    env.game.opponents = {}  # the opponent is unknown
    env.reset(seed=0, options={"task": "rounds/20"})
    total, over, info = 0.0, False, {}
    while not over:
        _, reward, over, _, info = env.step(env.expert())
        total += reward
    assert total >= least - 1e-9
    assert info["success"] == (level not in ("hare", "straight"))


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("PrisonersDilemma", (3 * 6 + 5) / 7),
        ("StagHunt", 4 * 6 / 7),
        ("RockPaperScissors", 1.0),
    ],
)
def test_the_expert_plays_at_its_best_against_the_default_opponent(name, best):
    env: Any = gymnasium.make(f"AgentGym/{name}-v0", disable_env_checker=True).unwrapped
    env.reset(seed=0, options={"task": "rounds/7"})
    total, over = 0.0, False
    while not over:
        _, reward, over, *_ = env.step(env.expert())
        total += reward
    assert total == pytest.approx(best)


def test_what_the_expert_leaves_to_chance_does_not_foretell_the_other():
    env: Any = gymnasium.make("AgentGym/RockPaperScissors-v0", opponents="random").unwrapped
    gains = []
    for seed in range(20):
        env.reset(seed=seed, options={"task": "rounds/4"})
        gains += [env.step(env.expert())[1] * 4 for _ in range(4)]
    assert min(gains.count(gain) for gain in (-1, 0, 1)) > 10


def test_likelihoods_by_hand():
    models = ("stag", "tit_for_tat", "random")
    mine, theirs = ["hare", "stag"], ["stag", "hare", "stag"]
    found = iterated.likelihoods(
        stag_hunt.scripted, models, stag_hunt.CHOICES, [*mine, "hare"], theirs
    )
    assert found == pytest.approx([0.95 * 0.05 * 0.95, 0.95**3, 1 / 8])


def test_what_the_best_plan_pays_by_hand():
    """Against a known tit for tat, three stags pay 4, 4, 4, and a last hare would pay 3."""
    payoff = agentgym.make_parallel("StagHunt-v0").game.payoff
    choices = stag_hunt.CHOICES
    plans = iterated.usual_plans(stag_hunt.scripted, ("tit_for_tat",), choices, payoff, 3)
    choice, worth = iterated.best_plan(
        plans, stag_hunt.scripted, ("tit_for_tat",), choices, payoff, ["stag"], ["stag"], 3
    )
    assert (choice, worth) == ("stag", pytest.approx(4))


@pytest.mark.parametrize("name", PAYOFFS)
def test_talk_comes_before_every_choice(name):
    env = agentgym.make_parallel(f"{name}-Talk-v0")
    observations, infos = env.reset(seed=0)
    assert env.game.actions == () and infos["player_0"]["admissible"] == ()
    assert "Send a message" in observations["player_0"]["text"]
    observations, *_, infos = env.step({"player_0": "Trust me.", "player_1": ""})
    assert "The other player said: Trust me." in observations["player_1"]["text"]
    assert infos["player_1"]["admissible"] == env.game.choices


@pytest.mark.parametrize(
    ("game", "wrong"),
    [
        (stag_hunt.StagHunt, {"hare": 5}),
        (stag_hunt.StagHunt, {"alone": 2}),
        (chicken.Chicken, {"crash": 2}),
        (chicken.Chicken, {"dare": 3}),
        (rock_paper_scissors.RockPaperScissors, {"messages": -1}),
    ],
)
def test_no_other_game_passes_for_these(game, wrong):
    with pytest.raises(ValueError):
        game(**wrong)
