"""The games of TextArena as environments."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate
from agentgym.registration.making import make_env

textarena = pytest.importorskip("textarena", reason="needs the extra `textarena`")


def first_move(text: str) -> str:
    """The first available move in a text."""
    return re.findall(r"\[\d\]", text.rpartition("Available Moves")[2])[0]


TIC_TAC_TOE = {"game": "TicTacToe-v0", "num_players": 2, "opponents": first_move}


@pytest.mark.parametrize("seat", [0, 1])
def test_a_game_is_played_in_a_seat_as_in_textarena(seat):
    env: Any = make_env("TextArena-v0", **TIC_TAC_TOE, seat=seat)
    text, _ = env.reset(seed=0, options={"task": "test/3"})
    assert f"You are Player {seat}" in text
    reward, over, info = 0.0, False, {}
    while not over:
        move = re.findall(r"\[\d\]", text.rpartition("Available Moves")[2])[-1]
        text, reward, over, truncated, info = env.step(move)
        assert info["valid"] and not truncated
    game = textarena.make("TicTacToe-v0")
    game.reset(num_players=2, seed=0)
    for action in env.unwrapped.state.played:
        game.step(action)
    rewards, infos = game.close()
    assert reward == rewards[seat] and text == infos[seat]["reason"]
    assert info["success"] == (reward > 0)


def test_games_repeat_and_are_restored(global_rng_untouched):
    def episode(env: Any) -> Any:
        seen, saved = [env.reset(seed=4, options={"task": "train/1"})[0]], None
        for action in ("[A C]", "nonsense", "[A B]"):
            seen.append(env.step(action)[:4])
            if len(seen) == 2:
                saved = env.unwrapped.snapshot()
        return seen, saved

    env: Any
    env, other = (make_env("TextArena-v0", game="TowerOfHanoi-v0") for _ in range(2))
    (seen, saved), (again, _) = episode(env), episode(other)
    assert seen == again
    env.unwrapped.restore(saved)
    assert env.step("nonsense")[:4] == seen[2] and env.step("[A B]")[:4] == seen[3]


def test_an_invalid_action_is_reported():
    env = make_env("TextArena-v0", game="TowerOfHanoi-v0")
    env.reset(seed=0)
    assert env.step("[A C]")[4]["valid"]
    text, _, _, _, info = env.step("nonsense")
    assert not info["valid"] and "invalid" in text.lower()


def test_games_can_be_evaluated():
    report = evaluate(
        lambda: make_env("TextArena-v0", game="TowerOfHanoi-v0", max_turns=4), "random", tasks=4
    )
    assert len(report.episodes) == 4


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match=r"no game 'TowerOfHano-v0'. Did you mean"):
        make_env("TextArena-v0", game="TowerOfHano-v0")
    with pytest.raises(ConfigError, match="needs opponents"):
        make_env("TextArena-v0", game="TicTacToe-v0", num_players=2)
    with pytest.raises(ConfigError, match="seat must be in"):
        make_env("TextArena-v0", game="TowerOfHanoi-v0", seat=1)
