"""The critic benchmark runs at small size, and measures the variance that states fix."""

from __future__ import annotations

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from agentgym.errors import ConfigError
from agentgym.registration.making import make_env
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Support
from benchmarks.credit import critic, critic_data, critic_episodes, decisive_token, decisive_turn

from .helpers.worlds import trajectory


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the policies, each trained once."""
    return tmp_path_factory.mktemp("runs")


def test_the_variance_between_states_is_what_can_be_explained():
    rng = np.random.default_rng(0)
    states = rng.normal(size=4000)
    returns = (states[:, None] + 0.5 * rng.normal(size=(4000, 3))).astype(np.float32)
    assert critic.possible(returns) == pytest.approx(0.8, abs=0.02)
    assert critic.explained(states.astype(np.float32), returns) == pytest.approx(0.8, abs=0.02)
    assert critic.possible(np.ones((3, 2), np.float32)) == 0


def test_intervals_resample_episodes():
    rng = np.random.default_rng(0)
    episode = np.repeat(np.arange(100), 50)
    values = rng.normal(size=100)[episode]  # equal within an episode: 100 samples, not 5000
    mean, low, high = critic.interval(lambda x: x.mean(), episode, values)
    assert mean == pytest.approx(values.mean(), abs=1e-4)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 10, rel=0.15)


def test_critics_with_short_inputs_make_more_epochs(runs: Path, tmp_path: Path):
    settings = critic.Settings(
        episodes=4, held_out=2, states=2, continuations=2, tokens=900, epochs=7, demonstrations=2,
        runs=runs, out=tmp_path / "epochs.json",
    )  # fmt: skip
    agent = critic.clone("TicTacToe-v0", settings)
    train = critic.play("TicTacToe-v0", agent, settings).train
    with pytest.raises(SystemExit, match="continuations = 2 -> 3"):
        critic.play("TicTacToe-v0", agent, dataclasses.replace(settings, continuations=3))
    for name in ("seed", "demonstrations"):
        with pytest.raises(SystemExit, match=f"{name} = . -> 1.*set --runs"):
            critic.clone("TicTacToe-v0", dataclasses.replace(settings, **{name: 1}))
    epochs = {
        name: critic.fit(critic.CRITICS[name], agent, train, settings)[1]
        for name in ("own", "state")
    }
    length = sum(len(each.tokens) for some in train.trajectories for each in some.segments)
    assert epochs["own"] == round(900 / length) < epochs["state"] <= 7


def test_critics_are_fitted_to_the_episodes_of_each_player(runs: Path, tmp_path: Path):
    settings = critic_data.Settings(
        episodes=4, held_out=2, states=4, continuations=2, tokens=900, demonstrations=2,
        most=10, runs=runs, out=tmp_path / "data.json",
    )  # fmt: skip
    found = critic_data.measure("TicTacToe-v0", settings)
    rows = found["rows"]
    assert len(rows) == len(critic_data.ROWS)
    states = [rows[f"state: {count}, policy"]["states"] for count in (1, 3, 10)]
    assert states == sorted(states)
    returns = [rows[f"state: 10, {who}"]["return"] for who in ("random", "noisy expert", "expert")]
    assert returns == sorted(returns) and returns[0] < returns[2]


@pytest.mark.slow
def test_environments_are_measured_and_kept(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(critic, "CRITICS", {"shared": critic.CRITICS["shared"]})
    settings = critic.Settings(
        envs=("TicTacToe-v0",), episodes=4, held_out=3, states=6, continuations=2, tokens=1,
        demonstrations=2, runs=runs, out=tmp_path / "critic.json",
    )  # fmt: skip
    found = critic.measure("TicTacToe-v0", settings, {})
    assert found["states"]["all"] == 6
    assert found["critics"]["shared"].keys() == {*found["possible"], "correlation", "epochs"}
    with monkeypatch.context() as patch:  # episodes and critics are kept
        patch.setattr(critic_episodes, "collect", None)
        patch.setattr(critic, "fit", None)
        repeated = critic.measure("TicTacToe-v0", settings, found)
    assert {**repeated, "cpu_seconds": 0} == {**found, "cpu_seconds": 0}
    again = critic_episodes.Player("TicTacToe-v0", critic.clone("TicTacToe-v0", settings), 0)
    held = again.episodes("test", 2)
    forks = again.continuations(held, np.array([0, 0, 1]), 4)
    assert forks.shape == (3, 4) and np.isin(forks, [-1, 0, 1]).all()
    critic.write(settings.out, {"environments": {"TicTacToe-v0": found}})
    monkeypatch.setattr(critic, "measure", None)  # results are not measured again
    critic.main(settings)
    assert json.loads(settings.out.read_text())["environments"]["TicTacToe-v0"] == found


@pytest.mark.slow
def test_an_interrupted_environment_keeps_its_finished_critics(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    two = {name: critic.CRITICS[name] for name in ("shared", "state")}
    monkeypatch.setattr(critic, "CRITICS", two)
    settings = critic.Settings(
        episodes=4, held_out=3, states=6, continuations=2, tokens=1, demonstrations=2, runs=runs,
        out=tmp_path / "interrupted.json",
    )  # fmt: skip
    fitted = []

    def fit(chosen: Any, *rest: Any) -> Any:
        fitted.append(chosen)
        if len(fitted) == 2:
            raise KeyboardInterrupt
        return original(chosen, *rest)

    original = critic.fit
    monkeypatch.setattr(critic, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        critic.measure("TicTacToe-v0", settings, {})
    with pytest.raises(SystemExit, match="tokens = 1 -> 2"):
        critic.measure("TicTacToe-v0", replace(settings, tokens=2), {})
    found = critic.measure("TicTacToe-v0", settings, {})
    assert fitted == [two["shared"], two["state"], two["state"]]
    assert found["critics"].keys() == {"shared", "state"}


def test_a_new_environment_keeps_the_results_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def result(possible: float) -> dict[str, Any]:
        row = {"all": [possible, 0.0, 1.0]}
        return {"possible": row, "critics": dict.fromkeys(critic.CRITICS, row)}

    out, old = tmp_path / "critic.json", {name: result(0.5) for name in ("Maze-v0", "WebShop-v0")}
    critic.write(out, {"environments": old})
    monkeypatch.setattr(critic, "ProcessPoolExecutor", lambda n, **_: ThreadPoolExecutor(n))
    monkeypatch.setattr(critic, "measure", lambda *_: result(0.7))
    critic.main(critic.Settings(envs=("Maze-v0", "CarDealer-v0"), out=out))
    found = json.loads(out.read_text())["environments"]
    assert found == {**old, "CarDealer-v0": result(0.7)}


def test_an_environment_that_fails_is_named_and_the_others_are_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def measure(name: str, *_: Any) -> dict[str, Any]:
        if name == "Maze-v0":
            raise ConfigError("no way")
        row = {"all": [0.5, 0.0, 1.0]}
        return {"possible": row, "critics": dict.fromkeys(critic.CRITICS, row)}

    out = tmp_path / "critic.json"
    monkeypatch.setattr(critic, "ProcessPoolExecutor", lambda n, **_: ThreadPoolExecutor(n))
    monkeypatch.setattr(critic, "measure", measure)
    with pytest.raises(SystemExit, match="Failed: Maze-v0"):
        critic.main(critic.Settings(envs=("Maze-v0", "CarDealer-v0"), out=out))
    assert "Maze-v0: no way" in capsys.readouterr().out
    assert list(json.loads(out.read_text())["environments"]) == ["CarDealer-v0"]


def test_an_interrupted_benchmark_is_drawn_without_the_missing_critics(tmp_path: Path):
    done = {"possible": {"all": [0.4, 0.3, 0.5]}, "critics": {"own": {"all": [0.3, 0.2, 0.4]}}}
    found = {"X-v0": done, "Y-v0": {**done, "critics": {}}}
    critic.draw(found, tmp_path / "critic.png")
    assert (tmp_path / "critic.png").exists()
    assert critic.tabulate(found).row_count == 2


def test_the_place_of_the_decisive_turn():
    batch = Batch.of([trajectory([1, 1, 1], [0.0, 0.0, 1.0]), trajectory([1], [0.0])])
    # The second turn loses half of the expected return, and the third one wins it back by luck.
    returns = np.array([[1.0, 1.0], [1.0, 1.0], [0.4, 0.4], [0.0, 0.0]], np.float32)
    np.testing.assert_allclose(
        decisive_turn.advantages(batch, returns), [0, -0.6, 0.6, 0], atol=1e-6
    )
    assert list(decisive_turn.decisive_turns(batch, returns)) == [(slice(0, 3), 1, -1.0)]
    returns[2] = [-8.0, 8.0]  # too noisy to call a turn decisive
    assert list(decisive_turn.decisive_turns(batch, returns)) == []
    assert decisive_turn.place(np.array([0.0, 0.6, -0.6]), 1) == (0, 1)
    assert decisive_turn.place(np.zeros(3), 1) == (0.5, pytest.approx(1 / 3))
    assert decisive_turn.place(np.array([3.0, 2.0, 1.0]), 2) == (1, 0)


@pytest.mark.slow
def test_estimators_are_scored_at_decisive_turns(runs: Path):
    settings = decisive_turn.Settings(
        episodes=4, held_out=12, group=4, continuations=9, vine=1, tokens=1, demonstrations=2,
        runs=runs,
    )  # fmt: skip
    found = decisive_turn.measure("TicTacToe-v0", settings)
    assert found["episodes"] == 12 and 0 < found["decided"] <= 12
    assert found["estimators"]["grpo"]["place"] == [0.5, 0.5, 0.5]
    assert 0 < found["starts"] <= 3
    for row in found["estimators"].values():
        assert row.keys() == {"place", "first"}
        assert all(0 <= low <= mean <= high <= 1 for mean, low, high in row.values())
    assert {"poad", "turn", "ntpo", "gigpo", "vine"} <= found["estimators"].keys()


def test_the_planted_decisive_token_is_found():
    # Of "take red", "take blue" and "leave", the colour after "take" decides.
    world = decisive_token.Tried(
        tokens=[[1, 2, 9], [1, 3, 9], [4, 9]],
        probability=np.array([0.25, 0.25, 0.5]),
        returns=np.array([[1.0, 1.0], [0.0, 0.0], [0.75, 0.75]]),
    )
    exact, error = decisive_token.reference([world, world], slice(None))
    # V = 0.625, V("take") = 0.5, V("take red") = 1. The end is forced.
    np.testing.assert_allclose(exact, [-0.125, 0.5, 0] * 2)
    np.testing.assert_allclose(error, 0)
    noisy = world._replace(returns=np.array([[2.0, 0.0], [0.0, 0.0], [0.75, 0.75]]))
    # The error of each action is sqrt(2 / 3 / 2), and the shares change by (0.25, 0.25, 0.5).
    np.testing.assert_allclose(
        noisy.advantages(slice(None))[1], np.sqrt([0.375 / 3, 0.5 / 3, 0]), atol=1e-6
    )
    batch = Batch.of([trajectory([3, 3], [0.0, 1.0]), trajectory([3], [1.0])])
    supports = Support(np.array([0, 2, 4, 5], np.int32), np.array([1, 4, 2, 3, 9]))
    for each in batch.trajectories:
        for turn in each.turns:
            turn.support = supports
    chosen = decisive_token.choices(batch)
    assert chosen.tolist() == [True, True, False] * 3
    exact = np.array([-0.1, 0.5, 0, 0.2, -0.7, 0, 0.3, 0.2, 0], np.float32)
    error = np.array([0, 0, 0, 0, 0.2, 0, 0.2, 0, 0], np.float32)
    (found,) = decisive_token.decisive_tokens(batch, exact, error, chosen)  # one is too noisy
    assert (found.token, found.sign) == (4, -1)
    assert (found.among.tolist(), found.within.tolist()) == ([0, 1, 3, 4], [3, 4])
    assert found.scores(exact) == (0, 1, 0)
    assert found.scores(np.ones(9, np.float32)) == (0.5, 0, 0.5)
    assert found.scores(-exact) == (1, 0, 1)
    assert found.scores(np.zeros(9, np.float32)) == (0.5, 0.5, 0.5)


@pytest.mark.slow
def test_estimators_are_scored_at_decisive_tokens(runs: Path, tmp_path: Path):
    settings = decisive_token.Settings(
        envs=("TicTacToe-v0",), episodes=4, held_out=40, group=4, continuations=2, tokens=1,
        demonstrations=2, runs=runs, out=tmp_path / "decisive_token.json",
    )  # fmt: skip
    player = decisive_token.Player(
        "TicTacToe-v0", decisive_token.clone("TicTacToe-v0", settings), 0
    )
    held = player.episodes("test", 40, 4)
    tried = decisive_token.try_actions(player, held, settings)
    for each, last in zip(held.trajectories, held.turn_offsets[1:] - 1, strict=True):
        turn = each.turns[-1]
        assert tried[last].tokens[0] == player.agent.policy.encode_action(turn.action)
        if turn.reward == 1:  # a winning move wins whenever it is tried
            assert (tried[last].returns[0] == 1).all()
    assert 1 in held.rewards
    exact, _ = decisive_token.reference(tried, slice(4))
    assert np.abs(exact[decisive_token.choices(held)]).max() > 0
    assert not exact[~decisive_token.choices(held)].any()  # of forced tokens
    decisive_token.main(settings)
    found = json.loads(settings.out.read_text())["environments"]["TicTacToe-v0"]
    assert found["episodes"] == 40 and 0 < found["decided"] <= 40
    assert found["estimators"]["grpo"]["place"] == [0.5, 0.5, 0.5]
    names = {"poad", "turn", "ntpo", "gigpo", "vine", "lookahead", "progress", "token values"}
    assert names <= found["estimators"].keys()
    for row in found["estimators"].values():
        assert row.keys() >= {"place", "sign", "correlation"}


def test_continuations_have_randomness_of_their_own_and_the_same_start():

    def first_number(key: tuple[int, ...]) -> tuple[str, float]:
        env = make_env("FrozenLake-v0")
        play = critic_episodes.ForkSpec("train/3", 5, key).begin(0, 0, env)
        play.start()
        assert not play.follow_opening(None)  # there is none
        return str(play.observation), float(env.unwrapped.np_random.random())

    one, same, other = (first_number(key) for key in ((0, 1), (0, 1), (0, 2)))
    assert one == same
    assert one[0] == other[0] and one[1] != other[1]


def test_the_outcome_of_a_tried_action_is_random_anew():
    opening: Any = ("an action", "another one")  # which are not taken

    def first_number(key: tuple[int, ...], tried: int) -> float:
        env = make_env("FrozenLake-v0")
        forked = critic_episodes.ForkSpec("train/3", 5, key, opening, tried=tried)
        play: Any = forked.begin(0, 0, env)
        play.start()
        play.record = lambda *_: None
        assert play.follow_opening(None)  # records the first one
        return float(env.unwrapped.np_random.random())

    assert first_number((0, 1), 2) != first_number((0, 2), 2)
    assert first_number((0, 1), 1) == first_number((0, 2), 1)  # it forks one action later
