"""Recipes that learn from searches: their data, beyond the tests that all recipes share."""

from __future__ import annotations

import copy
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.agents import SearchAgent, View
from agentgym.agents.action_ranking import ByChoice
from agentgym.errors import ConfigError
from agentgym.multiagent.search import GameSearch
from agentgym.trainers.api import make_trainer
from agentgym.trainers.callbacks import Callback
from agentgym.trainers.credit.given import preference_weights
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.self_critique import PolicyChoice
from agentgym.trainers.imitation.demonstrations import Taught
from agentgym.trainers.policy.sampling import Request, Sample
from agentgym.trainers.recipes import agent_q, load
from agentgym.trainers.recipes import exit as exit_recipe
from agentgym.trainers.recipes.agent_q import Edge, State, TreePreferences
from agentgym.trainers.recipes.agent_r import splices
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.update.learner import ForwardPass

from ...helpers.learning import first_turns, learn, token_weights


def trained(recipe: str, folder: Path, **changes: Any) -> Any:
    """Returns a trainer after an iteration of few episodes."""
    settings: dict[str, Any] = dict(
        env_id="NumberLine-v0", env_kwargs={"size": 6, "max_turns": 8}, model="nano",
        context="current", instructions=False, constrain=True, iterations=1, eval_episodes=0,
        episodes_per_iteration=4, threads=1, device="cpu", quiet=True, log_with=(), transcripts=0,
        bc_demonstrations=0, run_dir=str(folder),
    )  # fmt: skip
    trainer = make_trainer(recipe, **settings | changes)
    trainer.run()
    return trainer


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Taught]:
    """The episodes that a teacher plays from now on."""
    found: list[Taught] = []
    teach = exit_recipe.teach
    monkeypatch.setattr(
        exit_recipe, "teach", lambda *args, **kw: found.extend(new := teach(*args, **kw)) or new
    )
    return found


def test_exit_imitates_the_search_from_the_policys_own_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trainer = trained("exit", tmp_path, teacher="search:best_first,budget=40", guided=True)
    hooks = trainer.hooks
    assert isinstance(hooks.teacher, SearchAgent)
    assert hooks.teacher.settings.policy.policy is trainer.policy
    own = trainer.play([EpisodeSpec(f"train/{i}", i, (1, i)) for i in range(6)])
    played = watched(monkeypatch)
    found = learn(hooks, own, 5)
    taught, weights, skipped = found.trajectories, token_weights(found), first_turns(found)
    assert len(taught) == 6 and all(each.success for each in taught)
    batch, steps = Batch.of(taught), 0
    for number, (before, after, turn) in enumerate(zip(own, taught, skipped, strict=True)):
        assert (before.task, before.seed) == (after.task, after.seed)
        acted = [each.action for each in before.turns]
        assert [each.action for each in after.turns[:turn]] == acted[:turn]
        assert after.turns[turn].observation == before.turns[turn].observation
        mine = weights[batch.turn_trajectory[batch.token_turn] == number]
        assert set(mine) <= {0.0, 1.0} and mine[-1] == 1 and (mine[0] == 0) == (turn > 0)
        steps += len(after.turns) - turn + played[number].costs["search_steps"]
    assert hooks.env_steps == steps and any(skipped)


def test_exit_imitates_the_search_in_all_seats_of_self_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    game = dict(env_id="TicTacToe-v0", env_kwargs={}, opponents="mirror")
    trainer = trained("exit", tmp_path, teacher="search:mcts,budget=10", **game)
    hooks = trainer.hooks
    assert isinstance(hooks.teacher, GameSearch)
    own = trainer.play(trainer.rollouts.episodes(7))
    played = watched(monkeypatch)
    found = learn(hooks, own, 5)
    taught, weights, skipped = found.trajectories, token_weights(found), first_turns(found)
    assert [t.agent for t in taught] == ["player_0", "player_1"] * 4
    assert hooks.metrics["imitated"] == 1 and any(skipped)
    for before, after, turn, each_played in zip(own, taught, skipped, played, strict=True):
        assert (before.task, before.seed, before.agent) == (after.task, after.seed, after.agent)
        acted = [each.action for each in before.turns[:turn]]
        assert [each.action for each in after.turns[:turn]] == acted
        searched = sum(len(each.admissible) > 1 for each in after.turns[turn:])
        assert each_played.costs.get("searches", 0) == searched
    for first, second in zip(skipped[::2], skipped[1::2], strict=True):
        assert first - second in (0, 1) or taught[0].task != "opening/"
    assert weights.sum() == sum(
        turn.stop - turn.start
        for each, skip in zip(taught, skipped, strict=True)
        for turn in each.turns[skip:]
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"guided": True}, "leave guided at False"),
        ({"teacher": "search:best_first"}, "the search is search:mcts"),
        ({"opponents": ("mirror=1", "past:2=1")}, "set opponents to 'mirror'"),
        (
            {"env_id": "NumberLine-v0", "opponents": "scripted", "visited": True},
            "visited is a setting of games",
        ),
    ],
)
def test_exit_in_games_explains_bad_settings(tmp_path: Path, changes: dict, message: str):
    game = {"env_id": "TicTacToe-v0", "env_kwargs": {}, "opponents": "mirror"}
    with pytest.raises(ConfigError, match=message):
        trained("exit", tmp_path, **game | {"teacher": "search:mcts"} | changes)


def test_exit_imitates_the_search_in_every_visited_state(tmp_path: Path):
    class Last:
        name = "last"

        def act(self, views: Sequence[View]) -> list[str]:
            return [view.info["admissible"][-1] for view in views]

    game = dict(env_id="TicTacToe-v0", env_kwargs={"board": "line"}, opponents="mirror")
    changes = dict(teacher="search:mcts,budget=2", visited=True, replayed=5, epsilon=0.5)
    trainer = trained("exit", tmp_path, **game, **changes)
    hooks, policy = trainer.hooks, trainer.policy
    assert len(hooks.earlier.since(0)) > 20
    hooks.teacher = Last()
    own = trainer.play(trainer.rollouts.episodes(7))
    learned = learn(hooks, own, 5)
    fresh, turns = learned.trajectories[:-5], [turn for each in own for turn in each.turns]
    for found, turn in zip(fresh, turns, strict=True):
        [advised], [segment] = found.turns, found.segments
        assert (advised.observation, advised.admissible) == (turn.observation, turn.admissible)
        assert advised.action == turn.admissible[-1]
        tokens = segment.tokens[advised.start : advised.stop].tolist()
        assert tokens == policy.encode_action(advised.action) and advised.support is not None
    same = np.mean([turn.action == turn.admissible[-1] for turn in turns])
    assert hooks.metrics["agreement"] == pytest.approx(same) and 0 < same < 1
    assert (token_weights(learned) == 1).all()


def test_exit_plays_on_up_to_the_horizon(tmp_path: Path):
    game = dict(env_id="TicTacToe-v0", env_kwargs={}, opponents="mirror", horizons=(2,))
    trainer = trained("exit", tmp_path, teacher="search:mcts,budget=2", visited=True, **game)
    own = trainer.play(trainer.rollouts.episodes(7))
    taught = learn(trainer.hooks, own, 5).trajectories
    assert len(taught) == sum(len(each.turns) for each in own)
    assert max(len(each.turns) for each in own) == 2


def test_exit_explores_without_importance_weights(tmp_path: Path):
    game = dict(env_id="TicTacToe-v0", env_kwargs={}, opponents="mirror", iterations=0)
    trainer = trained("exit", tmp_path, teacher="search:mcts", epsilon=0.5, **game)
    assert trainer.config.loss.importance_cap is None
    assert trainer.config.sampling().epsilon == 0.5


def test_exit_imitates_earlier_searches_again(tmp_path: Path):
    game = dict(env_id="TicTacToe-v0", env_kwargs={"board": "line"}, opponents="mirror")
    changes = dict(teacher="search:mcts,budget=2", replayed=3, iterations=2)
    trainer = trained("exit", tmp_path, **game, **changes)
    hooks, before = trainer.hooks, trainer.hooks.earlier.since(0)
    assert len(before) > 8 and all(len(each.turns) == 1 for each in before)
    own = trainer.play(trainer.rollouts.episodes(7))
    found = learn(hooks, own, 2)
    taught, skipped = found.trajectories, first_turns(found)
    fresh, again = taught[:8], taught[8:]
    assert len(again) == 3 and all(any(each is old for old in before) for each in again)
    assert skipped[8:] == [0] * 3
    added = [
        turn for each, first in zip(fresh, skipped[:8], strict=True) for turn in each.turns[first:]
    ]
    assert [each.turns[0].action for each in hooks.earlier.since(2)] == [t.action for t in added]
    copy = type(hooks)(trainer, hooks.config)
    copy.load_state_dict(hooks.state_dict())
    kept = [each.segments[0].tokens.tolist() for each in hooks.earlier.since(0)]
    assert [each.segments[0].tokens.tolist() for each in copy.earlier.since(0)] == kept


def test_exit_descends_the_cross_entropy_of_the_teachers_actions(tmp_path: Path):
    game = dict(env_id="TicTacToe-v0", env_kwargs={"board": "line"}, opponents="mirror")
    changes = dict(teacher="search:mcts,budget=2", replayed=1, temperature=2.0)
    loss = dict(epochs=1, minibatches=1, lr=3e-3)
    trainer = trained("exit", tmp_path, **game, **changes, **loss)
    policy, turns = trainer.policy, trainer.hooks.earlier.since(0)
    turns = [each for each in turns if len(each.turns[0].admissible) > 1]
    model = copy.deepcopy(policy.model)
    losses = []
    for each in turns:
        turn = each.turns[0]
        tokens = torch.from_numpy(each.segments[0].tokens[: turn.start]).long()[None]
        legal = [policy.encode_action(action)[0] for action in turn.admissible]
        logits = model(tokens).logits[0, -1, legal] / 2
        losses.append(-logits.log_softmax(-1)[turn.admissible.index(turn.action)])
    torch.stack(losses).mean().backward()
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    optimizer.step()
    batch = Batch.of(turns)
    credit = trainer.algorithm.signal.assign(batch, None)
    trainer.updater.optimizer = torch.optim.SGD(policy.model.parameters(), 0.1)
    found = trainer.updater.update(batch, credit, None, 1)
    assert found["policy_grad_norm"] == pytest.approx(norm, rel=1e-4)
    for own, other in zip(policy.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(own, other)


def test_exit_learns_nothing_from_a_teacher_that_fails(tmp_path: Path):
    class Lost:
        name = "lost"

        def act(self, views: Sequence[View]) -> list[str]:
            return ["?"] * len(views)

    trainer = trained("exit", tmp_path, teacher="random")
    hooks = trainer.hooks
    hooks.teacher = Lost()
    own = trainer.play([EpisodeSpec(f"train/{i}", i, (1, i)) for i in range(3)])
    found = learn(hooks, own, 5)
    assert found.trajectories == own[:1] and hooks.metrics["imitated"] == 0
    assert not token_weights(found).any()


def test_a_teacher_that_cannot_be_made_is_explained(tmp_path: Path):
    with pytest.raises(ConfigError, match="Unknown search 'mtcs'"):
        trained("exit", tmp_path, teacher="search:mtcs")
    assert load("exit").Config().teacher == "search:mcts,budget=64"


# Agent-R.


def test_agent_r_imitates_a_success_after_the_first_error(tmp_path: Path):
    trainer = trained("agent_r", tmp_path, group_size=2, wrong_turns=2)
    hooks, policy = trainer.hooks, trainer.policy

    def opening(*actions: str) -> tuple[Sample, ...]:
        encoded = [np.array(policy.encode_action(action), np.int32) for action in actions]
        return tuple(
            Sample(tokens, np.zeros(len(tokens), np.float32), None, action, True)
            for tokens, action in zip(encoded, actions, strict=True)
        )

    # Forth and back, then to either end: one of the two reaches the target, and mostly not both.
    ways = [opening("+", "-", *(end * 6)) for end in ("+", "-")]
    specs = [EpisodeSpec(f"train/{i}", i, (i, k), ways[k]) for i in range(8) for k in (0, 1)]
    own = trainer.play(specs)
    expected = splices(own, 2)
    assert len(expected) == sum(not each.success for each in own) > 1
    for splice in expected:
        assert splice.good.group == splice.failed.group and splice.good.success
        assert (splice.parent, splice.turn) == (2, 4)
    found = learn(hooks, own, 5)
    learned, weights, firsts = found.trajectories, token_weights(found), first_turns(found)
    revised = [each for each, first in zip(learned, firsts, strict=True) if first]
    assert revised and all(each.success for each in learned)
    assert len(learned) == len(revised) + sum(each.success for each in own)
    batch = Batch.of(learned)
    for number, first in enumerate(firsts):
        mine = batch.token_turn[batch.turn_trajectory[batch.token_turn] == number]
        given = weights[batch.turn_trajectory[batch.token_turn] == number]
        np.testing.assert_array_equal(given, mine - mine[0] >= first)
    for each in revised:
        splice = next(s for s in expected if s.failed.group == each.group)
        wrong = [turn.action for turn in splice.failed.turns[:4]]
        good = [turn.action for turn in splice.good.turns[2:]]
        assert [turn.action for turn in each.turns[: 4 + len(good)]] == wrong + good
        assert all(turn.support is not None for turn in each.turns[4 : 4 + len(good)])


def test_agent_r_refuses_a_revision_that_cannot_be_generated():
    with pytest.raises(ConfigError, match="leave out revision"):
        load("agent_r").Config.of(revision="I was wrong. ", constrain=True)


# Agent Q.

Grown = tuple[TreePreferences, list[Trajectory], Learn]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    """Returns hooks, all episodes of their trees, and the actions with their pairs."""
    folder = tmp_path_factory.mktemp("agent_q")
    changes = {"group_size": 2, "simulations": 10, "width": 3, "threshold": 0.2, "gamma": 0.9}
    trainer = trained("agent_q", folder, **changes)
    hooks, play, played = trainer.hooks, trainer.play, []

    def recorded(episodes: Sequence[EpisodeSpec]) -> list[Trajectory]:
        found = play(episodes)
        played.extend(found)
        return found

    trainer.play = recorded
    trainer.hooks.buffer = type(hooks.buffer)(maxlen=10_000)
    specs = [EpisodeSpec(f"train/{i // 2}", i // 2, (1, i)) for i in range(8)]
    actions = learn(hooks, recorded(specs), 5)
    assert len(played) == 8 + 4 * 10
    return hooks, played, actions


@pytest.mark.slow
def test_agent_q_pairs_actions_of_a_state_by_their_mean_return(grown: Grown):
    hooks, played, actions = grown
    returns: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in played:
        acted, rewards = [t.action for t in each.turns], [t.reward for t in each.turns]
        for turn, action in enumerate(acted):
            rest = rewards[turn:] @ 0.9 ** np.arange(len(rewards) - turn)
            returns[each.group, tuple(acted[:turn])][action].append(float(rest))
    expected: Counter[Any] = Counter()
    pairs = 0
    for (group, _), found in returns.items():
        means = {action: np.mean(found[action]) for action in found}
        for action, mean in means.items():
            better = [mean - other > 0.2 for other in means.values()]
            worse = [other - mean > 0.2 for other in means.values()]
            pairs += sum(better)
            expected[group, action, round(mean, 9)] += any(better) or any(worse)
    got = Counter((t.group, t.turns[0].action, round(value, 9)) for t, _, value in hooks.buffer)
    assert got == +expected
    assert actions.pairs is not None and len(actions.pairs) == pairs > 3
    assert any(t.turns[0].start < len(t.segments[0].tokens) for t in actions.trajectories)


@pytest.mark.slow
def test_agent_q_pairs_share_a_prompt_and_differ_in_the_action(grown: Grown):
    hooks, _, actions = grown
    assert hooks.buffer[0].state[0] == 5  # the iteration
    for better, worse, *_ in actions.pairs or ():
        one, other = hooks.buffer[better], hooks.buffer[worse]
        a, b = one.trajectory, other.trajectory
        assert (a, b) == (actions.trajectories[better], actions.trajectories[worse])
        assert one.state == other.state and a.turns[0].action != b.turns[0].action
        assert one.value - other.value > 0.2
        (left,), (right,) = a.segments, b.segments
        start = a.turns[0].start
        assert start == b.turns[0].start
        np.testing.assert_array_equal(left.tokens[:start], right.tokens[:start])


def towards(view: View, action: str) -> float:
    """Whether an action of NumberLine goes towards the goal."""
    position, goal = map(int, re.findall(r"\d+", view.observation))
    return float((action == "+") == (position < goal))


FEW = {"group_size": 2, "simulations": 6, "width": 3, "threshold": 0.2}


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("alpha", [0.0, 0.25])
def test_agent_q_prefers_what_its_critic_ranks_higher(tmp_path: Path, alpha: float):
    hooks = trained("agent_q", tmp_path, alpha=alpha, judge=f"{__name__}:towards", **FEW).hooks
    states: dict[Any, list[Any]] = defaultdict(list)
    for trajectory, state, value in hooks.buffer:
        view = View.of_text("", trajectory.turns[0].observation)
        states[state].append((value, towards(view, trajectory.turns[0].action)))
    assert states
    for found in states.values():
        (low, bad), (high, good) = sorted(found)
        assert (bad, good) == (0, 1) and high - low > 0.2
        assert alpha or (low, high) == (0, 1)


@pytest.mark.usefixtures("without_files")
def test_the_policy_of_agent_q_criticises_itself(tmp_path: Path):
    """It names one of the actions, always, and the same one in a second run."""
    one, other = (trained("agent_q", tmp_path / each, alpha=0.0, **FEW).hooks for each in "ab")
    critic = one._critic
    assert critic.asked > 0 == critic.unread == one.metrics["unread_choices"]
    assert {value for *_, value in one.buffer} == {0.0, 1.0}
    assert [each[1:] for each in one.buffer] == [each[1:] for each in other.buffer]


@pytest.mark.usefixtures("without_files")
def test_a_question_that_is_too_long_still_has_the_actions(tmp_path: Path):
    trainer = trained("agent_q", tmp_path, iterations=0, max_tokens=400, alpha=0.0)
    asked: list[Request] = []
    trainer.act = lambda requests: asked.extend(requests) or [SimpleNamespace(text="best: 1")]
    actions = "\n\n1. go left\n\n2. go right"
    for text in ("short" + actions, "long " * 500 + actions):
        assert PolicyChoice(trainer)([text], [2]) == [0]
        shown = trainer.policy.tokenizer.decode(asked[-1].prompt)
        assert "1. go left" in shown and "2. go right" in shown
    assert len(asked[-1].prompt) + trainer.config.rollout.max_new_tokens <= 400


@pytest.mark.usefixtures("without_files")
def test_unread_choices_are_those_of_an_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def choose(texts: Sequence[str], counts: Sequence[int]) -> list[int | None]:
        return [0 if trainers and trainers[0].state.iteration else None] * len(counts)

    class First(Callback):
        def on_training_start(self, trainer: Any) -> None:
            trainers.append(trainer)

    trainers: list[Any] = []
    monkeypatch.setattr(agent_q, "make_ranking", lambda source: ByChoice(choose))
    trained(
        "agent_q", tmp_path, alpha=0.5, judge="chat:m@http://localhost:1/v1", iterations=2,
        callbacks=[First()], **FEW,
    )  # fmt: skip
    shares = [row["credit/unread_choices"] for row in read_metrics(tmp_path)]
    assert shares == [1.0, 0.0]


@pytest.mark.usefixtures("without_files")
def test_agent_q_needs_no_ratio(tmp_path: Path):
    changes = {"group_size": 4, "simulations": 4, "episodes_per_iteration": 32, "threshold": 0.0}
    trained("agent_q", tmp_path, ratio="none", gamma=0.9, **changes)
    assert read_metrics(tmp_path)[-1]["credit/pairs"] > 0


def test_agent_q_refers_to_the_policy_that_sampled(grown: Grown):
    hooks, _, actions = grown
    batch, signal = Batch.to_learn(actions), agent_q.build(hooks.config).signal
    recorded = np.concatenate([turn.logprobs for turn in batch.turns])
    for shift in (0.0, 0.5):
        now = recorded + np.where(batch.token_turn % 2, shift, -shift).astype(np.float32)
        forward = ForwardPass(now, None, None, np.zeros_like(now))
        found = signal.assign(batch, forward)
        credit = found.advantages
        change = (now - recorded.astype(np.float64)) * batch.free  # of forced tokens it is 0
        scores = np.bincount(batch.token_turn, change)
        assert actions.pairs
        weights, _ = preference_weights(scores, actions.pairs, hooks.config.beta)
        np.testing.assert_allclose(
            credit, len(actions.trajectories) * weights[batch.token_turn], atol=1e-6
        )
        assert abs(weights.sum()) < 1e-9 and np.abs(weights).max() > 0
        assert found.metrics["pairs"] == len(actions.pairs)
    assert hooks.metrics["states"] > hooks.metrics["paired_states"] > 0


def test_agent_q_searches_by_uct(grown: Grown):
    """One action is better, and the other has been tried less often."""
    episode = max(grown[1], key=lambda each: len(each.turns))
    good, bad, child = Edge(episode, 0), Edge(episode, 0), State(episode, 1)
    good.returns, bad.returns, good.state = [1.0, 0.0, 1.0, 1.0], [0.5], child
    root = State(episode, 0, {"good": good, "bad": bad}, samples=3)
    assert root.best(0.0) is good and root.best(1.0) is bad
    assert root.best(0.4) is good  # 0.75 + 0.4 * 0.567 > 0.5 + 0.4 * 0.897
    assert root.select(4, 0.0) is root  # the policy samples a fourth action first
    assert root.select(3, 0.0) is child  # a state without samples
    assert root.select(3, 1.0) is root  # the other action ends the episode


def test_agent_q_replays_the_latest_actions(grown: Grown):
    hooks, _, actions = grown
    other = TreePreferences(hooks.trainer, hooks.config)
    other.load_state_dict(hooks.state_dict())
    assert [each[1:] for each in other.buffer] == [each[1:] for each in hooks.buffer]
    number = len(actions.trajectories)
    # The states of another iteration are others, even if nothing else differs.
    fresh = [each for each in grown[1] if each.group == actions.trajectories[0].group]
    both = learn(other, fresh, 6)
    assert len(both.trajectories) > number and both.pairs and actions.pairs
    assert len(both.pairs) > len(actions.pairs)
    assert not [p for p in both.pairs if (p.better < number) != (p.worse < number)]


def test_agent_q_learns_nothing_without_a_pair(grown: Grown):
    hooks = TreePreferences(grown[0].trainer, grown[0].config)
    hooks.config.threshold, threshold = 9.0, hooks.config.threshold
    found = learn(hooks, grown[1][:1], 7)
    hooks.config.threshold = threshold
    assert found.trajectories == grown[1][:1]
    batch = Batch.to_learn(found)
    zeros = np.zeros(batch.num_tokens, np.float32)
    credit = agent_q.build(hooks.config).signal.assign(batch, ForwardPass(zeros, None, None, zeros))
    assert not credit.advantages.any() and credit.metrics["pairs"] == 0
