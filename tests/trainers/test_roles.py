"""Roles with policies of their own: `--roles separate` and `--roles adapters`."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.agents import View
from agentgym.errors import CheckpointError, ConfigError
from agentgym.evaluation import nashconv
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.seats import seat_view
from agentgym.registration.making import make_env
from agentgym.trainers import load_policy
from agentgym.trainers.api import make_trainer
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.role_agent import RoleAgent
from agentgym.trainers.rollout.seats import GamePlay
from agentgym.trainers.run.iteration import Iteration
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.trainer import Trainer

ROLES = ("player_0", "player_1")
ADAPTERS = {"roles": "adapters", "lora_rank": 1}
KINDS = {"separate": {"roles": "separate"}, "adapters": ADAPTERS}
SMALL: dict[str, Any] = {
    "env_id": "KuhnPoker-v0", "env_kwargs": {"hands": 2}, "opponents": "mirror",
    "context": "current", "instructions": False, "constrain": True, "iterations": 2,
    "episodes_per_iteration": 8, "num_envs": 8, "epochs": 1, "minibatches": 1,
    "lr": 1e-3, "eval_episodes": 0, "device": "cpu", "threads": 1,
    "quiet": True, "log_with": (), "transcripts": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_policy("KuhnPoker-v0", size="nano", folder=folder, episodes=16)
    return str(folder)


@pytest.fixture(autouse=True)
def quick(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs start from one model, and end without a report."""
    monkeypatch.setitem(SMALL, "model", model)
    monkeypatch.setattr("agentgym.trainers.trainer.conclude", lambda *_, **__: [])


def made(recipe: str, folder: Path, **changes: Any) -> Trainer:
    return make_trainer(recipe, run_dir=str(folder), **SMALL | changes)


def run(recipe: str, folder: Path, **changes: Any) -> tuple[Trainer, list[dict[str, Any]]]:
    """Trains, and returns the trainer and what it logged, without what depends on the clock."""
    trainer = made(recipe, folder, **changes)
    trainer.run()
    rows = read_metrics(folder)
    return trainer, [{k: v for k, v in row.items() if "time/" not in k} for row in rows]


def state(trainer: Trainer, role: str) -> dict[str, torch.Tensor]:
    """Copies of everything that an update of a role changes."""
    updater = trainer.updaters.parts[role]
    found = dict(updater.module.state_dict())
    for number, values in updater.optimizer.state_dict()["state"].items():
        found |= {f"{number}.{name}": value for name, value in values.items()}
    return {name: value.clone() for name, value in found.items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def disturb(policies: Iterable[Policy]) -> None:
    """Moves the weights of each policy away from those of the others."""
    for seed, policy in enumerate(policies):
        generator = torch.Generator().manual_seed(seed)
        for parameter in policy.parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.data += 0.3 * noise


def storages(policies: Iterable[Policy]) -> int:
    """The bytes of all parameters and buffers, each storage once."""
    tensors = [t for p in policies for t in (*p.parameters(), *p.buffers())]
    found = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(found.values())


# Learning.


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_update_of_a_role_changes_no_other(kind: str, tmp_path: Path):
    trainer = made("poad", tmp_path, **KINDS[kind])
    trainer._begin()

    @settings(deadline=None, max_examples=4)
    @given(st.sets(st.sampled_from(ROLES)))
    def check(learning: set[str]) -> None:
        trainer.updaters._learning = lambda _: learning
        before = {role: state(trainer, role) for role in ROLES}
        Iteration(trainer).run()
        for role in ROLES:
            after = state(trainer, role)
            assert same(before[role], after) == (role not in learning)
            if role in learning:
                critic = [name for name in after if name.startswith("critic.")]
                assert critic
                assert not any(torch.equal(before[role][n], after[n]) for n in critic)

    check()
    trainer.folder.close()


@pytest.mark.parametrize("recipe", ["turn", "rae"])
def test_a_single_role_learns_as_a_shared_policy(recipe: str, tmp_path: Path):
    (one, rows), (shared, expected) = (
        run(recipe, tmp_path / kind, roles=kind, learners=("player_0",))
        for kind in ("separate", "shared")
    )
    assert same(state(one, "player_0"), state(shared, ""))
    for row, other in zip(rows, expected, strict=True):
        assert other.pop("charts/lr") == row.pop("charts/player_0/lr")
        own = ("losses/player_0/", "credit/player_0/")
        assert {k: v for k, v in row.items() if not k.startswith(own)} == other


@pytest.mark.parametrize("kind", KINDS)
def test_the_learning_rate_of_each_role_depends_on_its_own_reliability(kind: str, tmp_path: Path):
    trainer = made("turn", tmp_path, **KINDS[kind])
    trainer._begin()

    def for_nothing(batch: Batch, *_: Any) -> Batch:
        """All returns of player_1 are 0, so that its advantages are the critic's error."""
        first = np.array([t.role == "player_0" for t in batch.trajectories])
        return batch.with_rewards(np.where(first[batch.turn_trajectory], batch.rewards, 0.0))

    trainer.hooks.on_rewards = for_nothing  # type: ignore[method-assign]
    trainer.algorithm = replace(trainer.algorithm, hooks=lambda _: trainer.hooks)
    policies = [trainer.policies[role] for role in ROLES]
    before = [copy.deepcopy(policy.own_weights()) for policy in policies]
    Iteration(trainer).run()
    unmoved = [same(old, new.own_weights()) for old, new in zip(before, policies, strict=True)]
    assert unmoved == [False, True]
    trainer.log.close()
    [row] = [row for row in read_metrics(tmp_path) if "credit/reliability" in row]
    assert row["credit/player_1/reliability"] == row["charts/player_1/lr"] == 0
    assert row["credit/player_0/reliability"] > 0.05
    assert row["charts/player_0/lr"] == pytest.approx(1e-3 * row["credit/player_0/reliability"])
    assert row["credit/reliability"] == pytest.approx(row["credit/player_0/reliability"] / 2)
    trainer.folder.close()


def test_a_frozen_role_acts_and_the_other_learns_as_beside_a_learning_one(tmp_path: Path):
    both, _ = run("rae", tmp_path / "both", roles="separate", iterations=1)
    one, rows = run(
        "rae", tmp_path / "one", roles="separate", iterations=1, role_lr={"player_1": 0}
    )
    assert same(state(one, "player_0"), state(both, "player_0"))
    assert not same(state(one, "player_1"), state(both, "player_1"))
    start = Policy.load(SMALL["model"]).state_dict()
    assert same(dict(one.policies["player_1"].state_dict()), dict(start))
    assert rows[0]["rollout/player_1/turns"] > 0 and "losses/player_1/kl" not in rows[0]
    assert rows[0]["charts/player_1/lr"] == 0 < rows[0]["charts/player_0/lr"] == 1e-3


@pytest.mark.slow
def test_roles_alternate(tmp_path: Path):
    rates = {"player_0": 2e-3}
    trainer, rows = run("rae", tmp_path, roles="separate", iterations=5, alternate=2, role_lr=rates)
    learned = [{r for r in ROLES if f"losses/{r}/kl" in row} for row in rows]
    assert learned == [{"player_0"}] * 2 + [{"player_1"}] * 2 + [{"player_0"}]
    for row, [role] in zip(rows, learned, strict=True):
        assert row["losses/policy_grad_norm"] == row[f"losses/{role}/policy_grad_norm"] > 0
    assert [row["charts/player_0/lr"] for row in rows] == [2e-3] * 5
    assert len({p.version for p in trainer.policies.values()}) == 1


def test_the_critics_of_all_roles_warm_up_before_policies_alternate(tmp_path: Path):
    """The policy of a later role would otherwise start with a critic that knows nothing."""
    few = {"alternate": 1, "critic_warmup": 2, "role_lr": {"player_0": 1e-3}}
    trainer = made("turn", tmp_path, roles="separate", **few)
    learned = [trainer.lineup.learning(iteration) for iteration in range(4)]
    assert learned == [ROLES, ROLES, ROLES[:1], ROLES[1:]]
    trainer.folder.close()


@pytest.mark.parametrize(
    ("env_id", "kind"),
    [("KuhnPoker-v0", "adapters"), ("Werewolf-Menu-v0", "separate")],
)
def test_each_seat_acts_and_is_scored_with_the_weights_of_its_role(
    env_id: str, kind: str, tmp_path: Path
):
    """In Werewolf, each deal assigns the roles anew."""
    few = {"env_id": env_id, "env_kwargs": {"max_turns": 6}, "episodes_per_iteration": 1}
    trainer = made("poad", tmp_path, **KINDS[kind] | few)
    disturb(trainer.policies.values())
    batch = Batch.of(trainer.rollouts.collect(0))
    assert 1 < len({t.role for t in batch.trajectories}) <= len(trainer.policies)
    scored = trainer.updaters.evaluate_actions(batch, reference=False)
    assert scored.logprobs is not None
    np.testing.assert_allclose(scored.logprobs, batch.logprobs, atol=1e-4)
    for role, part in trainer.updaters.split(batch).items():
        own = trainer.updaters.parts[role].evaluate_actions(part.batch, reference=False)
        assert own.values is not None and scored.values is not None
        assert np.array_equal(own.values.turns, scored.values.turns[part.turns])
        assert np.array_equal(own.values.bootstrap, scored.values.bootstrap[part.trajectories])
        others = [r for r in trainer.policies if r != role]
        wrong = trainer.updaters.parts[others[0]].evaluate_actions(part.batch, reference=False)
        assert wrong.logprobs is not None
        assert np.abs(wrong.logprobs - part.batch.logprobs).max() > 1e-2
    trainer.folder.close()


@pytest.mark.slow
def test_four_adapters_share_one_base_in_memory(tmp_path: Path):
    """In a new run, in a resumed one, and in the agent of evaluations."""
    game = {"env_id": "Codenames-Menu-v0", "env_kwargs": {}, "episodes_per_iteration": 1}
    trainer, _ = run("rae", tmp_path, **ADAPTERS, **game, iterations=1)
    resumed = made("rae", tmp_path, **ADAPTERS, **game, iterations=1, resume=True)
    agent = load_agent(str(tmp_path / "checkpoints" / "000001" / "policy"))
    assert isinstance(agent, RoleAgent)
    loaded = [each.policy for each in agent.agents.values()]
    for policies in ([*trainer.policies.values()], [*resumed.policies.values()], loaded):
        assert len(policies) == 4
        assert storages(policies) <= 1.15 * storages(policies[:1])
    resumed.folder.close()


def test_all_roles_begin_with_the_cloned_expert(tmp_path: Path, model: str):
    few = {"bc_demonstrations": 4, "bc_epochs": 1, "bc_lr": 1e-3, "iterations": 0}
    trainer, _ = run("poad", tmp_path, roles="separate", **few)
    first, second = (dict(trainer.policies[role].state_dict()) for role in ROLES)
    assert same(first, second)
    assert not same(first, dict(Policy.load(model).state_dict()))


@pytest.mark.parametrize("kind", KINDS)
def test_roles_begin_with_their_own_policies(kind: str, tmp_path: Path):
    """Each is also its reference policy, which a resumed run loads again."""
    before = made("rae", tmp_path / "before", **KINDS[kind])
    disturb(before.policies.values())
    before.agent("rae").save(tmp_path / "policy")
    before.folder.close()
    expected = {role: dict(before.policies[role].own_weights()) for role in ROLES}
    assert not same(*expected.values())
    changes = {"roles": kind, "model": str(tmp_path / "policy"), "kl_coef": 0.1, "iterations": 1}
    trainer = made("rae", tmp_path / "run", **changes)
    assert trainer.config.kind == "new"
    assert all(same(dict(trainer.policies[r].own_weights()), expected[r]) for r in ROLES)
    trainer.run()
    assert not any(same(dict(trainer.policies[r].own_weights()), expected[r]) for r in ROLES)
    resumed = made("rae", tmp_path / "run", **changes, resume=True)
    assert all(same(dict(resumed.policies[r].reference_weights()), expected[r]) for r in ROLES)
    resumed.folder.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env_id": "Codenames-Menu-v0", "env_kwargs": {}}, "player_1, and none of player_2, play"),
        ({"lora_rank": 1}, "are trained as they are: set lora_rank to 0"),
        ({"bc_demonstrations": 2}, "After behaviour cloning, all roles have one policy"),
    ],
)
def test_policies_that_roles_cannot_begin_with_are_explained(
    changes: dict[str, Any], message: str, folder: Path, tmp_path: Path
):
    with pytest.raises(ConfigError, match=message):
        made("rae", tmp_path, roles="adapters", model=str(folder), **changes)


# Checkpoints.


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    changes = KINDS[kind] | {
        "iterations": 3, "resume": True, "alternate": 1, "role_lr": {"player_1": 3e-3},
        "kl_coef": 0.1, "eval_episodes": 2, "save_minutes": 0, "episodes_per_iteration": 4,
    }  # fmt: skip
    changes |= {"exchange": 2} if kind == "separate" else {"kl_reference": "polyak:0.3"}
    whole, expected = run("poad", tmp_path / "whole", **changes)
    calls, original = 0, GamePlay.trajectories

    def killed(game: GamePlay) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2 * 4 + 3:
            raise KeyboardInterrupt
        return original(game)

    monkeypatch.setattr(GamePlay, "trajectories", killed)
    with pytest.raises(KeyboardInterrupt):
        run("poad", tmp_path / "killed", **changes)
    resumed, rows = run("poad", tmp_path / "killed", **changes)
    assert rows == expected
    assert all(same(state(resumed, role), state(whole, role)) for role in ROLES)
    assert rows[-1]["losses/reference_kl"] > 0
    references = [resumed.policies[role].reference_weights() for role in ROLES]
    assert same(*references) == (kind == "separate")


@pytest.mark.parametrize("kind", KINDS)
def test_references_are_exchanged_with_the_policies_that_began_as_them(kind: str, tmp_path: Path):
    begun = made("rae", tmp_path / "begun", **KINDS[kind])
    disturb(begun.policies.values())
    starts = {role: dict(begun.policies[role].own_weights()) for role in ROLES}
    begun.agent("rae").save(tmp_path / "policies")
    begun.log.close()
    begun.folder.close()
    few: dict[str, Any] = {
        "roles": kind, "model": str(tmp_path / "policies"), "kl_coef": 0.1, "save_minutes": 0,
        "episodes_per_iteration": 4, "exchange": 1, "resume": True,
    }  # fmt: skip
    once, _ = run("poad", tmp_path / "part", **few | {"iterations": 1})
    for role, before in (ROLES, ROLES[::-1]):
        found = once.policies[role].reference_weights()
        assert same(found, starts[before]) and not same(found, starts[role])
    whole, expected = run("poad", tmp_path / "whole", **few | {"iterations": 2})
    resumed, rows = run("poad", tmp_path / "part", **few | {"iterations": 2})
    assert rows == expected
    for role in ROLES:
        assert same(state(resumed, role), state(whole, role))
        for trainer in (resumed, whole):
            assert same(trainer.policies[role].reference_weights(), starts[role])


def test_a_damaged_policy_of_a_role_is_named(tmp_path: Path):
    run("rae", tmp_path, roles="separate", iterations=1)
    folder = tmp_path / "checkpoints" / "000001"
    (folder / "checksums.json").unlink()
    (folder / "policy" / "roles" / "player_1" / "model.safetensors").write_text("?")
    with pytest.raises(CheckpointError, match=r"player_1 cannot be loaded.* continue from 000000"):
        made("rae", tmp_path, roles="separate", iterations=1, resume=True)


# Agents.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: str) -> Path:
    """The agents of two roles with different adapters."""
    path = tmp_path_factory.mktemp("agents")
    trainer = made("rae", path / "run", **ADAPTERS, model=model)
    disturb(trainer.policies.values())
    trainer.agent("rae").save(path / "policy")
    trainer.folder.close()
    return path / "policy"


def test_an_agent_plays_each_seat_with_the_policy_of_its_role(folder: Path):
    agent = load_agent(str(folder))
    singles = [load_agent(str(folder), role=role) for role in ROLES]
    found = nashconv("KuhnPoker-v0", agent)
    expected = nashconv("KuhnPoker-v0", singles)
    assert found == expected
    assert found != nashconv("KuhnPoker-v0", singles[::-1])
    kwargs: dict[str, Any] = {"hands": 2, "opponents": f"policy:{folder}", "seat": "player_1"}
    with gymnasium.make("AgentGym/KuhnPoker-v0", **kwargs) as env:
        env.reset(seed=0)
        assert env.get_wrapper_attr("role") == "player_1"


def test_agents_of_roles_that_choose_among_samples_have_no_probabilities(folder: Path):
    agent = load_agent(str(folder), majority=3, temperature=1.0)
    with pytest.raises(ConfigError, match="has no method `probabilities`"):
        nashconv("KuhnPoker-v0", agent)
    assert nashconv("KuhnPoker-v0", agent, samples=2).nashconv > 0


def test_the_policy_of_a_role_is_loaded_by_name(folder: Path):
    kwargs: dict[str, Any] = {"admissible": ("bet", "check")}
    assert load_policy(folder, role="player_1").act("Your card is J.", **kwargs) in ("bet", "check")
    with pytest.raises(ConfigError, match=r"roles player_0, player_1: name the one"):
        load_policy(folder)
    with pytest.raises(ConfigError, match=r"role is 'player_2'. Did you mean: player_1"):
        load_policy(folder, role="player_2")
    with pytest.raises(ConfigError, match=r"one policy of all roles.* Leave out role"):
        load_agent(str(folder / "roles" / "player_0"), role="player_0")


def test_the_model_of_a_run_is_that_of_one_role(folder: Path, tmp_path: Path):
    for name in (folder, folder.parent):
        message = f"{folder} holds a policy for each role.* such as {folder}/roles/player_0"
        with pytest.raises(ConfigError, match=message):
            made("rae", tmp_path, model=str(name))


def test_a_seat_whose_role_has_no_policy_is_explained(folder: Path):
    agent = load_agent(str(folder))
    env = agentgym.make_parallel("Codenames-Menu-v0")
    env.reset(seed=0)
    view = seat_view(env.game, "player_2", np.random.default_rng(0))
    with pytest.raises(ConfigError, match="roles player_0, player_1, and none of 'player_2'"):
        agent.act([view])
    with pytest.raises(ConfigError, match=r"this environment has none: name the role"):
        agent.act([View.start(make_env("NumberLine-v0"), "train/0", 0)])


def test_adapters_of_different_bases_or_shapes_are_refused(folder: Path, tmp_path: Path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    file = other / "roles" / "player_1" / "adapter_config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"base_model_name_or_path": "elsewhere"}))
    with pytest.raises(ConfigError, match=r"base model 'elsewhere'.* share one base model"):
        load_agent(str(other))
    file.write_text(json.dumps(config))
    load_agent(str(other))
    (file.parent / "adapter_model.safetensors").unlink()
    with pytest.raises(ConfigError, match="Cannot open the adapter"):
        load_agent(str(other))


# Settings.


def test_learning_rates_of_roles_are_flags():
    flags = "--opponents mirror --roles separate --role-lr verifier=1e-5 refiner=0 --alternate 3"
    game = read_config("dr_mas", flags.split()).game
    assert game.role_lr == {"verifier": 1e-5, "refiner": 0}
    assert (game.roles, game.alternate) == ("separate", 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alternate": 3}, "alternate belongs to roles with their own policies"),
        ({"role_lr": {"player_0": 1e-4}}, "role_lr belongs to roles with their own policies"),
        ({"roles": "separate", "opponents": "past:2"}, "set opponents to 'mirror'"),
        ({"roles": "separate", "opponents": "scripted"}, "roles belongs to self-play"),
        ({"roles": "separate", "continuous_batching": True}, "set continuous_batching to False"),
        ({"roles": "separate", "role_lr": {"player_0": -1.0}}, "role_lr must be at least 0"),
        ({"roles": "separate", "role_lr": {"player_0": "x"}}, "role_lr must be numbers"),
        ({"roles": "separate", "role_lr": {"player_7": 0.1}}, "got 'player_7'. Did you mean"),
        ({"roles": "separate", "role_lr": {r: 0 for r in ROLES}}, "of every role is 0"),
        ({"roles": "adapters"}, "has no adapter: set roles to 'separate'"),
        ({"roles": "separate", "lora_rank": 1}, "to 'adapters', or leave out lora_rank = 1"),
    ],
)  # fmt: skip
def test_wrong_combinations_are_explained(changes: Any, message: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=re.compile(message, re.DOTALL)):
        made("poad", tmp_path, **changes)


def test_a_role_that_the_game_does_not_list_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(TextGame, "role", lambda game, agent: "dealer")
    trainer = made("rae", tmp_path, roles="separate")
    with pytest.raises(ConfigError, match=r"possible_roles\('player_0'\) must list .*'dealer'"):
        trainer.run()


@pytest.mark.parametrize("recipe", ["istar", "nlpo", "archer"])
def test_models_beside_a_single_policy_are_refused(recipe: str, tmp_path: Path):
    with pytest.raises(ConfigError, match="leave roles at 'shared'"):
        made(recipe, tmp_path, roles="separate", learners=("player_0",))


@pytest.mark.slow
def test_roles_differentiate_by_imitation_of_the_successes_of_their_team(tmp_path: Path):
    """The plans, actions and reflections of AutoAct are learned by an adapter each."""
    team = {
        "env_id": "Team-NumberLine-v0",
        "env_kwargs": {"roles": "planner-actor-reflector", "env_kwargs": {"size": 3}},
        "episodes_per_iteration": 16, "iterations": 1, "max_new_tokens": 4,
    }  # fmt: skip
    trainer = made("filtered_bc", tmp_path, **team, **ADAPTERS)
    trainer._begin()
    before = {role: state(trainer, role) for role in trainer.updaters.parts}
    assert len(before) == 3
    trainer.run()
    assert not any(same(old, state(trainer, role)) for role, old in before.items())
