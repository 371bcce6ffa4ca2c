"""Recipes for teams and self-play, except those of `test_self_play.py`, and judges."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents import View
from agentgym.agents.basic.chat import ChatAgent
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.trainers import Callback, recipes
from agentgym.trainers.api import make_trainer
from agentgym.trainers.credit.given import given_credit, preference_weights
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Pair
from agentgym.trainers.data.trajectory import Trajectory, Turn
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.hooks.trees import Node
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.agent import policy_agent
from agentgym.trainers.policy_agent.best_of import ReAsk
from agentgym.trainers.recipes import comas, malt, optima, read, spag
from agentgym.trainers.recipes.malt import Trees
from agentgym.trainers.rollout.branches import episodes_of
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.update.learner import ForwardPass

from ...helpers.worlds import trajectory

SMALL: dict[str, Any] = {
    "env_id": "Team-NumberLine-v0", "opponents": "mirror", "context": "current",
    "env_kwargs": {"env_kwargs": {"size": 4, "max_turns": 3}}, "max_new_tokens": 4,
    "instructions": False, "constrain": True, "iterations": 2, "episodes_per_iteration": 6,
    "num_envs": 16, "epochs": 1, "minibatches": 1, "lr": 1e-3,
    "eval_episodes": 0, "device": "cpu", "threads": 1, "quiet": True, "log_with": (),
}  # fmt: skip
PIONEER = {"env_kwargs": SMALL["env_kwargs"] | {"roles": "pioneer-observer"}}
REFINER = {"env_kwargs": SMALL["env_kwargs"] | {"roles": "generator-verifier-refiner"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_policy("Team-NumberLine-v0", size="nano", folder=folder, episodes=8)
    return str(folder)


@pytest.fixture(autouse=True)
def quick(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SMALL, "model", model)
    monkeypatch.setattr("agentgym.trainers.trainer.conclude", lambda *_, **__: [])


def run(recipe: str, folder: Path, **changes: Any) -> tuple[Trainer, list[dict[str, Any]]]:
    trainer = make_trainer(recipe, run_dir=str(folder), **SMALL | changes)
    trainer.run()
    rows = read_metrics(folder)
    return trainer, [{k: v for k, v in row.items() if "time/" not in k} for row in rows]


# MALT.


@pytest.fixture(scope="module")
def tree(model: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trees, list[malt.Output]]:
    """A tree of 3^3 episodes of a team of three, and its outputs."""
    folder = str(tmp_path_factory.mktemp("run") / "run")
    changes = {"model": model, "group_size": 3, "episodes_per_iteration": 3, **REFINER}
    trainer = make_trainer("malt", run_dir=folder, **SMALL | changes)
    trainer.make_hooks()
    hooks = trainer.hooks
    assert isinstance(hooks, Trees)
    fresh = trainer.rollouts.collect(0)
    outputs: list[malt.Output] = []
    with pytest.MonkeyPatch.context() as patch:
        whole = hooks._learn
        patch.setattr(hooks, "_learn", lambda found: outputs.extend(found) or whole(found))
        found = hooks.on_rollout_end(fresh, 0, np.random.default_rng(0)).trajectories
    trainer.folder.close()
    assert trainer.rollouts.turns > len(outputs) > len(episodes_of(found)) == 27
    return hooks, outputs


def test_malt_grows_a_tree_with_n_outputs_for_each_prompt(tree: Any):
    _, outputs = tree
    roles = Counter(output.trajectory.role for output in outputs)
    assert roles == {"generator": 3, "verifier": 9, "refiner": 27}
    families: dict[int, list[malt.Output]] = {}
    for output in outputs:
        each = output.trajectory
        assert len(each.turns) == 1 and len(each.segments[0].tokens) == each.turns[0].stop
        families.setdefault(output.family, []).append(output)
    assert len(families) == 1 + 3 + 9
    for members in families.values():
        found = [m.trajectory for m in members]
        prompts = {m.segments[0].tokens[: m.turns[0].start].tobytes() for m in found}
        assert len(members) == 3 and len(prompts) == 1
    below = [np.mean([m.value for m in members]) for members in families.values()]
    values = [each.value for each in outputs]
    assert values[:12] == pytest.approx(below[1:])  # those after the first family, in order
    assert set(values[12:]) <= {0.0, 1.0}


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**20))
def test_malt_credit_is_the_gradient_of_its_loss(tree: Any, seed: int):
    hooks, outputs = tree
    rng = np.random.default_rng(seed)
    outputs = [each._replace(value=float(rng.random())) for each in outputs]
    batch = Batch.to_learn(hooks._learn(outputs))
    logprobs = torch.tensor(rng.normal(size=batch.num_tokens), requires_grad=True)
    reference = torch.tensor(rng.normal(size=batch.num_tokens))
    owner = torch.from_numpy(batch.token_turn)
    score = torch.zeros(len(outputs), dtype=torch.float64)
    free = batch.free  # forced tokens have the same probability, 1, under both policies
    score = score.index_add(0, owner, (logprobs - reference) * torch.from_numpy(free))
    lengths = torch.bincount(owner, minlength=len(outputs))
    good = [each.value > 0.5 for each in outputs]
    pairs = [
        (a, b)
        for a, x in enumerate(outputs)
        for b, y in enumerate(outputs)
        if x.family == y.family and good[a] and not good[b]
    ]
    loss = -torch.stack([
        torch.nn.functional.logsigmoid(hooks.config.beta * (score[a] - score[b])) for a, b in pairs
    ]).mean()  # fmt: skip
    means = torch.zeros(len(outputs), dtype=torch.float64).index_add(0, owner, logprobs) / lengths
    loss = loss - hooks.config.sft_coef * means[torch.tensor(good)].mean()
    loss.backward()
    assert logprobs.grad is not None
    old, ref = (x.detach().numpy().astype(np.float32) for x in (logprobs, reference))
    forward = ForwardPass(old, None, ref, old)
    credit = malt.build(hooks.config).signal.assign(batch, forward)
    expected = -logprobs.grad.numpy() * len(outputs)
    np.testing.assert_allclose(credit.advantages[free], expected[free], atol=1e-4)
    assert credit.metrics["pairs"] == len(pairs) and hooks.metrics["positive"] == np.mean(good)


def test_malt_values_are_those_of_each_agent():
    """In a zero-sum game, one agent's success is the other's failure."""
    won, lost = trajectory([1], [1.0]), trajectory([1], [-1.0])
    won.agent, lost.agent, won.success = "a", "b", True
    node = Node([won, lost], 0, [Node([won, lost], 1), Node([won, lost], 1)])
    assert (malt.value(node, "a"), malt.value(node, "b"), node.following) == (1.0, 0.0, None)
    assert preference_weights(np.zeros(2), [Pair(0, 1)], 0.1)[0][0] > 0


@pytest.mark.slow
def test_malt_trains_a_policy_for_each_role_and_resumes(tmp_path: Path):
    few = {**REFINER, "roles": "separate", "group_size": 2, "episodes_per_iteration": 2}
    _, whole = run("malt", tmp_path / "a", **few)
    run("malt", tmp_path / "b", **few | {"iterations": 1})
    _, resumed = run("malt", tmp_path / "b", **few, resume=True)
    assert resumed[-1] == whole[-1]
    assert whole[-1]["credit/outputs"] == 2 + 4 + 8
    assert malt.build(malt.Config()).outcomes == "own"


# Optima.


def conversations(*episodes: tuple[str, int, float]) -> Batch:
    """Episodes of two agents: the task, the tokens of each output, and the return of both."""
    found = []
    for number, (task, tokens, gain) in enumerate(episodes):
        for agent in ("player_0", "player_1"):
            found.append(trajectory([tokens], [gain], task=task, agent=agent))
            found[-1].episode = str(number)
    return Batch.of(found)


def cloned(batch: Batch, reference: np.ndarray, **changes: Any) -> np.ndarray:
    """Returns the weight of each token."""
    hooks = optima.Ranked(optima.Config.of(group_size=2, episodes_per_iteration=4, **changes))
    forward = ForwardPass(batch.logprobs, None, reference, np.zeros_like(reference))
    found = hooks.on_rewards(batch, forward, 0, np.random.default_rng(0))
    return given_credit(found).advantages


def test_optima_clones_the_short_success_of_each_start():
    batch = conversations(("a", 4, 1.0), ("a", 2, 1.0), ("b", 1, 0.0), ("b", 6, 1.0))
    reference = np.full(batch.num_tokens, -1.0, np.float32)
    weights = cloned(batch, reference, top_fraction=1.0)
    expected = np.repeat([0, 0, 1, 1, 0, 0, 1, 1], [4, 4, 2, 2, 1, 1, 6, 6])
    assert weights == pytest.approx(expected / expected.mean())


def test_optima_ranks_by_return_tokens_and_the_least_readable_output():
    batch = conversations(("a", 4, 1.0), ("a", 2, 0.5))
    reference = np.full(batch.num_tokens, -1.0, np.float32)
    reference[:4] = -3.0  # the first agent's output of the first episode
    hooks = optima.Ranked(optima.Config.of(group_size=2, episodes_per_iteration=2))
    episode, start = np.array([0, 0, 1, 1]), np.array([0, 0])
    rewards = hooks.rewards(batch, episode, start, reference)
    assert rewards == pytest.approx([1 - 0.6 + np.exp(-3), 0.5 - 0.3 + np.exp(-1)])


@given(gains=st.lists(st.floats(-1, 1), min_size=1, max_size=6), low=st.floats(-1, 1))
@settings(deadline=None)
def test_optima_clones_one_episode_of_a_start_at_most(gains: list[float], low: float):
    batch = conversations(*((str(i // 2), 3, gain) for i, gain in enumerate(gains)))
    reference = np.zeros(batch.num_tokens, np.float32)
    weights = cloned(batch, reference, min_reward=low, token_coef=0.0, readability_coef=0.0)
    kept = weights.reshape(len(gains), -1).min(1) > 0
    assert weights.mean() == pytest.approx(1, rel=1e-5)
    assert kept.sum() >= 1 and all(kept[i : i + 2].sum() <= 1 for i in range(0, len(gains), 2))
    assert kept[np.argmax(gains)] or gains.count(max(gains)) > 1
    assert kept.sum() == 1 or np.array(gains)[kept].min() > low


def test_optima_trains_a_team_and_refuses_a_zero_sum_game(tmp_path: Path):
    few = {**PIONEER, "roles": "separate", "group_size": 3, "iterations": 1}
    _, rows = run("optima", tmp_path / "a", **few)
    assert 1 <= rows[-1]["credit/imitated"] <= 2
    with pytest.raises(ConfigError, match="zero-sum"):
        run("optima", tmp_path / "b", **few | {"env_id": "TicTacToe-v0", "env_kwargs": {}})


def talk(*texts: str) -> list[Trajectory]:
    """An episode of one agent with these outputs, of one token each."""
    found = trajectory([1] * len(texts), [0.0] * len(texts), actions=[*texts])
    found.segments[0].tokens[:] = [zlib.crc32(text.encode()) >> 2 for text in texts]
    return [found]


def test_optima_expands_states_with_high_rewards_whose_text_is_new():
    tree = optima.Tree([talk("first", "x", "end"), talk("other", "y", "end"), talk("last")])
    states = tree.states(np.array([1.0, 3.0, 8.0]))
    assert {s.text: (s.order, s.rewards, s.ends) for s in states.values()} == {
        "": (0, [1.0, 3.0, 8.0], False),
        "first": (1, [1.0], False), "x": (2, [1.0], True),
        "other": (1, [3.0], False), "y": (2, [3.0], True),
    }  # fmt: skip
    drawn = []
    for seed in range(400):
        tree.expanded = ["", "fist"] if seed % 2 else [""]
        state = tree.chosen(np.array([1.0, 3.0, 8.0]), np.random.default_rng(seed))
        assert state is not None and tree.expanded[-1] == state.text
        drawn.append(state.text)
    assert set(drawn[1::2]) == {"other"}  # "first" is like "fist"
    share = drawn[::2].count("other") / 200
    assert share == pytest.approx(1 / (1 + np.exp(-2.0)), abs=0.08)
    tree.expanded = ["", "first", "other"]
    assert tree.chosen(np.array([1.0, 3.0, 8.0]), np.random.default_rng(0)) is None


def test_optima_pairs_the_best_and_the_worst_output_of_a_state():
    episodes = [talk("a", "c"), talk("a", "d"), talk("b", "e"), talk("b", "e"), talk("z")]
    rewards = np.array([4.0, 1.0, 0.5, 1.5, 2.0])  # a: 2.5, b: 1, z: 2
    tree = optima.Tree(episodes)

    def pairs(**changes: Any) -> list[tuple[str, str]]:
        config = optima.Config.of(group_size=2, update="dpo", **changes)
        found = tree.pairs(rewards, config)
        return [tuple(o.trajectory.turns[o.place].action for o in pair) for pair in found]  # type: ignore[misc]

    assert pairs(top_fraction=1.0) == [("c", "d"), ("a", "b")]
    assert pairs(top_fraction=0.5) == [("c", "d")]
    assert pairs(top_fraction=1.0, threshold=2.0) == [("c", "d")]
    assert pairs(top_fraction=1.0, min_reward=3.0) == [("c", "d")]
    assert pairs(top_fraction=1.0, threshold=3.0) == []


def test_optima_learns_from_pairs_of_a_turn_tree(tmp_path: Path):
    changes: dict[str, Any] = {
        **REFINER,
        "update": "dpo",
        "group_size": 3,
        "threshold": 0.01,
        "expansions": 2,
    }
    trainer = make_trainer("optima", run_dir=str(tmp_path), **SMALL | changes)
    trainer.make_hooks()
    hooks = trainer.hooks
    assert isinstance(hooks, optima.Ranked) and trainer.algorithm.seats == "mirror"
    for policy in trainer.policies.values():
        policy.freeze_reference()
    fresh = trainer.rollouts.collect(0)
    found = hooks.on_rollout_end(fresh, 0, np.random.default_rng(0))
    trainer.folder.close()
    outputs, pairs = found.trajectories, found.pairs
    assert pairs is not None and len(outputs) == 2 * len(pairs) > 0
    assert trainer.rollouts.turns > sum(len(each.turns) for each in fresh)
    for better, worse, *_ in pairs:
        one, other = outputs[better], outputs[worse]
        assert one.agent == other.agent and one.turns[0].action != other.turns[0].action
        prompts = {t.segments[0].tokens[: t.turns[0].start].tobytes() for t in (one, other)}
        assert len(prompts) == 1


@pytest.mark.slow
def test_optima_alternates_and_resumes(tmp_path: Path):
    few = {**PIONEER, "roles": "separate", "group_size": 3, "update": "sft_dpo", "threshold": 0.01}
    _, whole = run("optima", tmp_path / "a", **few, iterations=3)
    run("optima", tmp_path / "b", **few, iterations=1)
    _, resumed = run("optima", tmp_path / "b", **few, iterations=3, resume=True)
    assert resumed[-1] == whole[-1]
    assert ["credit/pairs" in row for row in whole] == [False, True, False]


# CORY and ReMA.


def weights(trainer: Trainer, role: str) -> list[torch.Tensor]:
    """Weights of policy and critic, and the state of the optimiser."""
    updater = trainer.updaters.parts[role]
    state = updater.optimizer.state_dict()["state"]
    found = [*updater.module.state_dict().values(), *(v["exp_avg"] for v in state.values())]
    return [tensor.clone() for tensor in found]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_pioneer_and_observer_exchange_policies_critics_and_optimisers(tmp_path: Path):
    few = {**PIONEER, "roles": "separate", "iterations": 1}
    plain, _ = run("cory", tmp_path / "plain", **few)
    swapped, _ = run("cory", tmp_path / "swapped", **few, exchange=1)
    pioneer, observer = (weights(plain, role) for role in ("pioneer", "observer"))
    assert not same(pioneer, observer)
    assert same(weights(swapped, "pioneer"), observer)
    assert same(weights(swapped, "observer"), pioneer)


@pytest.mark.slow
def test_an_exchange_is_repeated_exactly_when_a_run_resumes(tmp_path: Path):
    few = {**PIONEER, "roles": "separate", "exchange": 1}
    trainer, whole = run("cory", tmp_path / "a", **few)
    run("cory", tmp_path / "b", **few | {"iterations": 1})
    again, resumed = run("cory", tmp_path / "b", **few, resume=True)
    assert resumed[-1] == whole[-1]
    assert all(same(weights(again, r), weights(trainer, r)) for r in ("pioneer", "observer"))


def test_an_exchange_needs_policies_of_roles(tmp_path: Path):
    with pytest.raises(ConfigError, match="exchange belongs to roles with their own policies"):
        run("cory", tmp_path, exchange=5)


@pytest.mark.parametrize("roles", ["shared", "separate"])
@pytest.mark.parametrize("recipe", ["marft", "cory"])
def test_a_central_critic_values_the_turns_of_a_team(recipe: str, roles: str, tmp_path: Path):
    """It reads the prompts of both seats, and is one critic for all roles."""
    few = {**PIONEER, "iterations": 1, "roles": roles, "critic_backbone": "separate"}
    few |= {"exchange": 1} if roles == "separate" else {}
    turns: list[Turn] = []

    class Played(Callback):
        def on_rollout_end(self, trainer: Run, trajectories: Sequence[Trajectory]) -> None:
            turns.extend(turn for each in trajectories for turn in each.turns)

    sees = {"critic_sees": "all", "callbacks": [Played()]}
    trainer, [row] = run(recipe, tmp_path / "all", **few, **sees)
    assert trainer.own_critic is not None
    assert all(part.module.critic is None for part in trainer.updaters.parts.values())
    assert {turn.privileged[:13] for turn in turns} == {"player_0 sees", "player_1 sees"}
    assert row["losses/value_loss"] < row["losses/value_loss_first"]
    assert row["losses/policy_grad_norm"] > 0
    _, [own] = run(recipe, tmp_path / "own", **few)
    assert own["losses/value_loss"] != row["losses/value_loss"]


def test_rema_compares_each_role_with_itself_and_clips_turns(tmp_path: Path):
    loss = recipes.load("rema").Config().loss
    assert (loss.ratio, loss.aggregation, loss.dual_clip, loss.clip) == ("turn", "turn", 3.0, 0.2)
    _, rows = run("rema", tmp_path, group_size=3, roles="separate", alternate=1)
    learned = [{r for r in ("thinker", "reasoner") if f"losses/{r}/kl" in row} for row in rows]
    assert learned == [{"thinker"}, {"reasoner"}]


@settings(deadline=None, max_examples=20)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.floats(-1, 1), st.integers(1, 3), st.floats(8, 9)),
        min_size=2, max_size=6,
    )
)  # fmt: skip
def test_rema_credits_a_role_relative_to_the_same_role_in_its_group(games: Any):
    """Its credit is the same whatever the other role gets and how often it acts."""
    episodes, roles = [], ("thinker", "reasoner")
    for number, game in enumerate(games):
        for role, turns, gain in zip(roles, game[::2], game[1::2], strict=True):
            episodes.append(trajectory([2] * turns, [0.0] * (turns - 1) + [gain], agent=role))
            episodes[-1].role, episodes[-1].episode = role, (number,)
    module = recipes.load("rema")
    batch = Batch.of(episodes)
    found = module.build(module.Config()).signal.assign(batch, None).advantages
    for place, role in enumerate(roles):
        gains = np.array([game[2 * place + 1] for game in games])
        expected = (gains - gains.mean()) / (gains.std(ddof=1) + 1e-6)
        counts = [2 * game[2 * place] for game in games]
        mine = np.array([each.role == role for each in episodes])
        tokens = mine[batch.turn_trajectory[batch.token_turn]]
        np.testing.assert_allclose(found[tokens], np.repeat(expected, counts), atol=1e-3)


# A judge.


def test_a_judge_reads_the_rules_and_the_turns_of_all_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []

    def act(self: ChatAgent, views: list[View]) -> list[str]:
        asked.extend(view.observation for view in views)
        return ["\n".join(f"{i}: {10 * (i % 2)}" for i in range(1, 40)) for _ in views]

    monkeypatch.setattr(ChatAgent, "act", act)
    judged = {"process_reward": "chat:judge@http://127.0.0.1:9/v1", "process_combine": "episode"}
    few = {**PIONEER, "group_size": 3, "iterations": 1}
    _, rows = run("dr_mas", tmp_path, **few, **judged)
    assert all(each.startswith("You are a member of a team") for each in asked)
    assert all("Turn 1 (pioneer)" in each and "Turn 2 (observer)" in each for each in asked)
    assert rows[-1]["credit/judge_unread"] == 0 and 0 < rows[-1]["credit/process_score"] < 1


# CoMAS.

SCORED = {"env_kwargs": SMALL["env_kwargs"] | {"roles": "solver-evaluator-scorer"}}


def discussion(scores: list[str], episode: int = 0) -> list[Trajectory]:
    """A solver and an evaluator of one turn, and a scorer with these replies."""
    found = []
    for order, (role, replies) in enumerate({"solver": ["7"], "evaluator": ["No."]}.items()):
        found.append(trajectory([2], [0.5], agent=f"player_{order}", actions=replies))
        found[-1].role, found[-1].turns[0].order = role, order
    found.append(
        trajectory([1] * len(scores), [0.0] * len(scores), agent="player_2", actions=scores)
    )
    found[-1].role = "scorer"
    for each in found:
        each.episode = (episode,)
        for order, turn in enumerate(each.turns):
            turn.clock, turn.order = 0, order + int(each.agent[-1])
    return found


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        (["3"], [1, 0, 0]),
        (["2."], [0.5, 0.5, 0]),
        (["1"], [0, 1, 0]),
        (["good", "3"], [1, 0, -1, 0]),
        (["good", "4"], [0, 0, -1, -1]),
    ],
)
def test_comas_rewards_solver_and_evaluator_by_opposite_scores(
    replies: list[str], expected: list[float]
):
    batch = Batch.of([*discussion(["2"], 1), *discussion(replies)])
    hooks = comas.InteractionRewards(task_coef=0.0)
    found = hooks.on_rewards(batch, None, 0, np.random.default_rng(0)).rewards
    assert found.tolist() == [0.5, 0.5, 0, *expected]
    invalid = -sum(expected[2:]) / (1 + len(replies))
    assert hooks.metrics["invalid_scores"] == pytest.approx(invalid)
    hooks.task_coef = 2.0
    both = hooks.on_rewards(batch, None, 0, np.random.default_rng(0)).rewards
    assert both == pytest.approx(found + 2 * batch.rewards)


def test_comas_keeps_the_rewards_of_a_single_agent_and_needs_a_scorer(tmp_path: Path):
    alone = Batch.of([trajectory([1], [3.0])])
    hooks = comas.InteractionRewards(task_coef=0.0)
    assert hooks.on_rewards(alone, None, 0, np.random.default_rng(0)) is alone
    with pytest.raises(ConfigError, match=r"trained roles are \['observer', 'pioneer'\]"):
        run("comas", tmp_path, **PIONEER)


def test_comas_trains_a_policy_for_each_role(tmp_path: Path):
    _, rows = run("comas", tmp_path, **SCORED, roles="separate")
    assert rows[-1]["credit/invalid_scores"] == 0 < rows[-1]["credit/score"] < 1
    for role in ("solver", "evaluator"):
        assert rows[-1][f"losses/{role}/policy_grad_norm"] > 0
    assert rows[-1]["losses/scorer/policy_grad_norm"] == 0  # all scores are valid


# ReAd.


@pytest.fixture(scope="module")
def critic(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainer]:
    """A trainer of a pioneer and an observer with the hooks of `read`."""
    folder = str(tmp_path_factory.mktemp("read") / "run")
    changes: dict[str, Any] = {**PIONEER, "model": model}
    trainer = make_trainer("read", run_dir=folder, **SMALL | changes)
    trainer.make_hooks()
    yield trainer
    trainer.folder.close()


def test_read_regresses_actions_and_empty_ones_on_the_return_of_the_team(
    critic: Trainer, monkeypatch: pytest.MonkeyPatch
):
    hooks, rng = critic.hooks, np.random.default_rng(0)
    assert isinstance(hooks, read.SequentialAdvantages)
    batch = Batch.of(critic.rollouts.collect(0))
    for turn in batch.turns:
        turn.reward = float(rng.normal())
    batch = Batch.of(batch.trajectories)
    fitted: list[tuple[Batch, np.ndarray]] = []
    gains = np.linspace(-0.5, 0.5, batch.num_turns)
    before = rng.normal(size=batch.num_turns)
    monkeypatch.setattr(hooks.model, "fit", lambda b, t, _: fitted.append((b, t)) or [0.0])
    monkeypatch.setattr(hooks.model, "predict", lambda _: np.append(before + gains, before))
    found = hooks.on_rollout_end(list(batch.trajectories), 0, rng)
    credit = given_credit(Batch.to_learn(found))
    weights = np.minimum(np.exp(gains / 0.1), 20.0)[batch.token_turn]
    assert credit.advantages == pytest.approx(weights, rel=1e-5)
    [(both, targets)] = fitted
    joint = Joint.of(batch)
    assert targets[: batch.num_turns][joint.turns] == pytest.approx(joint.returns(0.99))
    assert targets[batch.num_turns :].tolist() == targets[: batch.num_turns].tolist()
    end = critic.policy.encode_action("")
    owners = batch.turn_trajectory.tolist()
    for n, turn, alone in zip(
        owners, batch.turns, both.trajectories[len(set(owners)) :], strict=True
    ):
        prompt = batch.trajectories[n].segments[turn.segment].tokens[: turn.start]
        assert alone.segments[0].tokens.tolist() == [*prompt.tolist(), *end]


class Liking:
    """A judge with a value for each action."""

    def __init__(self, **values: float):
        self.values = {"": 0.0, "+": values["plus"], "-": values["minus"]}

    def predict(self, batch: Batch) -> np.ndarray:
        return np.array([self.values[turn.action.strip()] for turn in batch.turns])


@pytest.mark.parametrize(
    ("plus", "minus", "n", "action", "asked"),
    [
        (0.5, -0.5, 40, "+", None),  # refused until it is "+"
        (-0.5, 0.5, 40, "-", None),
        (0.1, 0.1, 40, None, 1),  # every action is good enough
        (-0.4, -0.5, 40, "+", 40),  # none is, and the best one is played
        (-0.5, -0.5, 1, None, 1),
    ],
)
def test_an_action_is_asked_for_again_while_its_advantage_is_low(
    critic: Trainer, plus: float, minus: float, n: int, action: str | None, asked: int | None
):
    agent = policy_agent(critic.config, critic.policy, "read")
    judge: Any = Liking(plus=plus, minus=minus)
    env = NumberLine(size=4)
    views = [View.start(env, "train/3", seed) for seed in range(4)]
    played = ReAsk(agent, judge, n, 0.0).act(views)
    assert action is None or played == [action] * 4
    assert all(asked in (None, view.costs["asked"]) for view in views)
    first = policy_agent(critic.config, critic.policy, "greedy")
    again = [View.start(env, "train/3", seed) for seed in range(4)]
    if asked == 1:
        assert played == first.act(again)  # the first answer is the agent's own


@pytest.mark.slow
def test_read_saves_the_agent_that_asks_again_and_resumes(tmp_path: Path):
    _, whole = run("read", tmp_path / "a", **PIONEER)
    run("read", tmp_path / "b", **PIONEER, iterations=1)
    trainer, resumed = run("read", tmp_path / "b", **PIONEER, resume=True, attempts=3)
    assert resumed[-1] == whole[-1]
    agent = trainer.agent("again")
    assert isinstance(agent, ReAsk)
    agent.save(tmp_path / "agent")
    loaded = load_agent(str(tmp_path / "agent"))
    assert isinstance(loaded, ReAsk) and (loaded.n, loaded.threshold) == (3, 0.0)
    views = [[View.start(NumberLine(size=4), "train/3", 1)] for _ in range(2)]
    assert loaded.act(views[0]) == agent.act(views[1])
    assert views[0][0].costs == views[1][0].costs


# SPAG.


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([-1.0, 0.0, 1.0])), min_size=2),
    st.floats(0.3, 1.0),
)
def test_spag_divides_one_over_the_turns_of_each_winner(games: Any, decay: float):
    """Weights as in the authors' code: (1/decay)^k of turn k, of sum 1, and n / (2 n_role)."""
    played = []
    for i, (turns, outcome) in enumerate(games):
        one = trajectory([2] * turns, [0.0] * (turns - 1) + [outcome])
        one.role = "attacker" if i % 2 else "defender"
        played.append(one)
    batch = Batch.of(played)
    credit = spag.WinnersCredit(decay)(batch)
    credit = spag.EqualRoles().on_advantages(batch, credit, 0)
    wins = {r: sum(o > 0 and t.role == r for t, (_, o) in zip(played, games, strict=True))
            for r in ("attacker", "defender")}  # fmt: skip
    won = {r: n for r, n in wins.items() if n}
    expected = []
    for one, (turns, outcome) in zip(played, games, strict=True):
        raw = np.array([(1 / decay) ** (k + 1) for k in range(turns)])
        weight = sum(wins.values()) / (len(won) * wins[one.role]) if outcome > 0 else 0.0
        expected += np.repeat(weight * raw / raw.sum(), 2).tolist()
    np.testing.assert_allclose(credit.advantages, expected, rtol=1e-4, atol=1e-6)
    for role in won:
        mine = [one.role == role for one in played]
        total = credit.advantages[np.array(mine)[batch.turn_trajectory[batch.token_turn]]].sum()
        assert total == pytest.approx(2 * sum(wins.values()) / len(won), rel=1e-4)
