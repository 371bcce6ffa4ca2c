"""Credit on state graphs: golden vectors of a small group, and what holds for every graph."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.credit.graph import (
    G2PO,
    GAGPO,
    GraphGPO,
    edges_of,
    forked,
    shortest_paths,
)
from agentgym.trainers.credit.group import (
    HGPO,
    GiGPO,
    anchor_groups,
    anchor_values,
    dr_grpo,
    grpo,
    members_of,
)
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory

from ...helpers.worlds import generators, random_batch, trajectory

SUCCESS, LOST = "success", "lost"


def walk(path: Sequence[str], end: str, **kwargs) -> Trajectory:
    """An episode of turns of one token. It ends in a success, a failure, or is cut off in a state.

    An action has the name of the next state.
    """
    solved, following = end == SUCCESS, [*path[1:], end]
    return trajectory(
        [1] * len(path),
        [0.0] * (len(path) - 1) + [float(solved)],
        keys=list(path),
        actions=following,
        terminated=end in (SUCCESS, LOST),
        success=solved,
        final_key=end,
        **kwargs,
    )


# A>B B>C C>success | A>D D>A A>B B>D | A>B B>D D>E
GOLDEN = [walk("ABC", SUCCESS), walk("ADAB", "D"), walk(["A", "B", "D"], "E")]
EPISODE = [1.1547] * 3 + [-0.5773] * 7
COMPARED = [0.5, 1.1547, 0, -1.5, 0.7071, 0.5, -0.5774, 0.5, -0.5774, -0.7071]
GAINS = [0.1813, 2.1896, 0.0510, -0.8924, 0.6376, 0.1813, -1.2011, 0.1813, -1.2011, -0.1274]
BY_LAMBDA = {
    0.95: [0.6468, 0.6333, 0, -0.2037, 0.0243, -0.2106, -0.3167, -0.2106, -0.3167, 0],
    0.0: [0.0752, 0.6333, 0, -0.2256, 0.2143, 0.0752, -0.3167, 0.0752, -0.3167, 0],
}
ESTIMATORS = [GraphGPO(), GraphGPO(scale=False), G2PO(), G2PO(scale=False), GAGPO(lambda_=0.5)]
few = settings(max_examples=20)
every = pytest.mark.parametrize(
    "estimator", ESTIMATORS, ids=["graphgpo", "graphgpo, F = 1", "g2po", "g2po, F = 1", "gagpo"]
)


def distances(walks: Sequence[Trajectory]) -> dict[str, float]:
    """The distance of each state and end of one group."""
    batch = Batch.of(walks)
    edges = edges_of(batch)
    steps = shortest_paths(batch, edges)
    return {n.key or n.kind: float(d) for n, d in zip(edges.nodes, steps, strict=True)}


def step_term(estimator: GraphGPO, walks: Sequence[Trajectory]) -> np.ndarray:
    """The advantages without those of whole episodes."""
    batch = Batch.of(walks)
    episode = (grpo() if estimator.scale else dr_grpo())(batch).advantages
    return estimator(batch).advantages - episode


def random_walks(rng: np.random.Generator, count: int = 6) -> list[Trajectory]:
    """Episodes in five states, of two tasks, with every kind of end."""
    return [
        walk(
            "".join(rng.choice(list("ABCDE"), rng.integers(1, 7))),
            str(rng.choice([SUCCESS, LOST, *"ABCDE"])),
            task=f"task{n % 2}",
        )
        for n in range(count)
    ]


def test_golden_distances_and_comparisons_of_graphgpo():
    found = {SUCCESS: 0.0, "C": 1.0, "B": 2.0, "A": 3.0, "D": 4.0, "E": 5.0}
    assert distances(GOLDEN) == found
    for omega in (0.1, 0.5, 0.8):
        advantages = GraphGPO(omega)(Batch.of(GOLDEN)).advantages
        assert np.allclose(advantages, np.add(EPISODE, COMPARED), atol=1e-3)


def test_golden_values_and_gains_of_g2po():
    batch = Batch.of(GOLDEN)
    left = np.array([3, 2, 1, 4, 3, 2, 1, 3, 2, 1])
    values = members_of(anchor_groups(batch)).mean(0.95**left * ([1.0] * 3 + [0.0] * 7))
    first = {turn.state_key: v for turn, v in zip(batch.turns, values, strict=True)}
    assert first == pytest.approx({"A": 0.21434, "B": 0.30083, "C": 0.95, "D": 0.0}, abs=1e-4)
    expected = np.add(np.add(EPISODE, COMPARED), GAINS)
    assert np.allclose(G2PO()(batch).advantages, expected, atol=1e-3)


def test_golden_advantages_of_gagpo_and_gigpo():
    batch = Batch.of(GOLDEN)
    values = anchor_values(batch, 0.95)
    first = {turn.state_key: v for turn, v in zip(batch.turns, values, strict=True)}
    assert first == pytest.approx({"A": 0.2256, "B": 0.3167, "C": 1.0, "D": 0.0}, abs=1e-4)
    for lambda_, expected in BY_LAMBDA.items():
        assert np.allclose(GAGPO(0.95, lambda_)(batch).advantages, expected, atol=1e-4)
    step = [1.5, 1.1547, 0, -0.5, 0, -0.5, -0.5773, -0.5, -0.5773, 0]
    assert np.allclose(GiGPO()(batch).advantages, np.add(EPISODE, step), atol=1e-3)


@every
@few
@given(rng=generators)
def test_neither_the_order_of_episodes_nor_names_of_states_matter(estimator, rng):
    walks = random_walks(rng)
    before = np.split(
        estimator(Batch.of(walks)).advantages, np.cumsum([len(w.turns) for w in walks])
    )
    order = rng.permutation(len(walks))
    names = {key: f"state {n}" for n, key in enumerate(rng.permutation(list("ABCDE")))}
    renamed = [
        replace(
            w,
            turns=[replace(turn, state_key=names[turn.state_key]) for turn in w.turns],
            final_state_key=names.get(w.final_state_key, w.final_state_key),
        )
        for w in walks
    ]
    after = estimator(Batch.of([renamed[n] for n in order])).advantages
    assert np.allclose(after, np.concatenate([before[n] for n in order]), atol=1e-5)


def test_with_two_distances_in_a_state_omega_does_not_matter_and_with_three_it_does():
    two, three = GOLDEN, [*GOLDEN, walk("AC", LOST)]  # A leads to B, D and C
    for walks, same in ((two, True), (three, False)):
        low, high = (step_term(GraphGPO(omega), walks)[0] for omega in (0.1, 0.8))
        assert (abs(low - high) < 1e-3) == same


@given(rng=generators, omega=st.floats(0.1, 0.9))
def test_distances_relative_to_the_state_are_compared_alike(rng, omega):
    batch = Batch.of(random_walks(rng))
    edges = edges_of(batch)
    steps, anchors = shortest_paths(batch, edges), members_of(edges.source)
    relative = omega ** (steps[edges.target] - steps[edges.source] + 1)
    plain = omega ** steps[edges.target]
    one, other = (anchors.compare(x, scale=True, epsilon=1e-12) for x in (relative, plain))
    assert np.allclose(one, other, atol=1e-4)


@every
def test_a_group_without_a_success_credits_nothing(estimator):
    assert not estimator(Batch.of(GOLDEN[1:])).advantages.any()


def test_states_that_are_visited_once_are_compared_with_none():
    alone = Batch.of([walk("ABC", SUCCESS, task=str(n)) for n in range(3)])
    assert not GraphGPO()(alone).advantages.any()
    gains = G2PO(scale=False)(alone).advantages
    assert np.allclose(gains, np.tile([-0.0024167, -0.0000417, 0.0024583], 3), atol=1e-6)


@pytest.mark.parametrize("scale", [True, False])
def test_equal_episodes_have_exactly_no_step_term(scale):
    equal = Batch.of([walk("ABC", SUCCESS)] * 3)
    assert not GraphGPO(scale=scale)(equal).advantages.any()
    assert np.abs(GAGPO()(equal).advantages).max() < 1e-12


def test_rounding_is_not_taken_for_a_signal_by_normalisation():
    batch = Batch.of([walk("ABCDE", SUCCESS)] * 7)
    credit = normalize_advantages(GAGPO(0.93, 0.5)(batch), batch, "group")
    assert np.abs(credit.advantages).max() < 1e-6


@given(rng=generators, gamma=st.floats(0, 1))
def test_gagpo_at_lambda_one_compares_returns_in_a_state(rng, gamma):
    batch = random_batch(rng)
    returns = discounted_returns(batch.rewards, batch.turn_offsets, gamma)
    step = members_of(anchor_groups(batch)).compare(returns, scale=False, epsilon=0.0)
    assert np.allclose(GAGPO(gamma, 1.0)(batch).advantages, step[batch.token_turn], atol=1e-5)


@given(rng=generators)
def test_more_edges_bring_no_state_with_a_path_farther_from_a_success(rng):
    walks = [replace(w, task="task") for w in random_walks(rng)]
    before, after = distances([*walks[:3], GOLDEN[0]]), distances([*walks, GOLDEN[0]])
    batch = Batch.of([*walks[:3], GOLDEN[0]])
    edges = edges_of(batch)
    steps = shortest_paths(batch, edges)
    reaching = {edges.nodes[n].key for n in edges.source[steps[edges.source] < steps.max()]}
    assert all(after[key] <= before[key] for key in reaching)


def test_loops_end():
    assert distances([walk("AAB", "B"), walk("ABABC", SUCCESS)]) == {
        "A": 3, "B": 2, "C": 1, SUCCESS: 0
    }  # fmt: skip
    assert distances([walk("ABAB", "A")]) == {"A": 1, "B": 1}


def test_exhaustive_play_of_a_chain_gives_true_distances():
    walks = []
    for moves in itertools.product((-1, 1), repeat=6):
        path, place = "", 2
        for move in moves:
            path += str(place)
            place = max(place + move, 0)
            if place == 5:
                break
        walks.append(walk(path, SUCCESS if place == 5 else str(place)))
    found = distances(walks)
    assert found == {SUCCESS: 0.0} | {str(place): float(5 - place) for place in range(5)}


@pytest.mark.parametrize("scale", [True, False])
def test_the_shortest_path_is_preferred_even_as_a_gamble_and_gagpo_weighs_the_odds(scale):
    """A gamble wins with 1/10, the other path always, in one turn more."""
    gambles = [walk("A", SUCCESS)] + [walk("A", LOST)] * 9
    safe = [walk("AB", SUCCESS)] * 10
    batch = Batch.of([*gambles, *safe])
    edges = edges_of(batch)
    steps = shortest_paths(batch, edges)[edges.target]
    rewards = 0.1**steps
    assert rewards[:10].mean() > rewards[10::2].mean()
    assert rewards[:10].mean() == pytest.approx(
        (1 + 9 * 0.01) / 10
    )  # a failure is one turn farther
    step = step_term(GraphGPO(0.1, scale), [*gambles, *safe])
    assert step[:10].mean() > step[10::2].mean()
    weighed = GAGPO()(batch).advantages
    assert weighed[:10].mean() < weighed[10::2].mean()


def test_a_cut_episode_leads_to_its_last_state_and_a_terminated_one_does_not():
    cut = [walk("ABC", SUCCESS), walk("AD", "B")]
    assert distances(cut)["D"] == 3.0
    lost = [walk("ABC", SUCCESS), replace(walk("AD", "B"), terminated=True, truncated=False)]
    assert distances(lost)["D"] == 4.0 == distances(lost)["failure"]


def test_groups_have_graphs_of_their_own():
    other = [walk("D", SUCCESS, task="other"), walk("E", "D", task="other")]
    batch = Batch.of([*GOLDEN, *other])
    edges = edges_of(batch)
    steps = shortest_paths(batch, edges)
    found = {edges.nodes[n]: steps[n] for n in range(len(steps))}
    assert {n.key: d for n, d in found.items() if n.group == 1 and n.key} == {"D": 1, "E": 2}
    assert {n.key: d for n, d in found.items() if n.group == 0 and n.key == "D"} == {"D": 4}


def test_repeated_actions_with_several_outcomes_are_counted():
    def share(*walks: Trajectory) -> float:
        batch = Batch.of(walks)
        return forked(batch, edges_of(batch))

    def act(path: str, end: str, name: str = "go") -> Trajectory:
        found = walk(path, end)
        return replace(found, turns=[replace(turn, action=name) for turn in found.turns])

    assert share(*GOLDEN) == 0.0
    assert share(walk("A", "B")) == 0.0  # nothing was repeated
    assert share(act("AB", "C"), act("AC", "D")) == 1.0
    assert share(act("AB", "C"), act("AB", "C"), act("AC", "C")) == pytest.approx(3 / 5)
    assert share(act("A", "B", "left"), act("A", "C", "right")) == 0.0
    ended = replace(act("A", "B"), terminated=True, truncated=False)
    assert share(act("AB", "B"), ended) == 0.0  # only a limit differs
    won = replace(act("A", "B"), success=True)
    assert share(act("AB", "B"), won) == 1.0


def test_states_of_the_observation_split_by_feedback_and_merge_what_looks_alike():
    keys, texts = ["a", "a", "b"], ["room", "Invalid.\n\nroom", "room"]
    walks = [trajectory([1] * 3, [0.0, 0.0, r], keys=keys, observations=texts) for r in (0.0, 1.0)]
    batch = Batch.of(walks)
    assert anchor_groups(batch).tolist() == [0, 0, 1, 0, 0, 1]
    assert anchor_groups(batch, "observation").tolist() == [0, 1, 0, 0, 1, 0]
    for estimator in (GiGPO(anchor="observation"), HGPO(anchor="observation")):
        metrics = estimator(batch).metrics
        assert metrics["anchor/merged"] == pytest.approx(4 / 6)
        assert metrics["anchor/alone"] == 0.0
    for estimator in (GiGPO(), HGPO()):
        assert "anchor/merged" not in estimator(batch).metrics


@given(rng=generators)
def test_keys_and_texts_that_agree_give_equal_credit(rng):
    batch = random_batch(rng)
    for turn in batch.turns:
        turn.observation = f"You are in {turn.state_key}."
    for kind in (GiGPO, HGPO):
        one, other = kind()(batch).advantages, kind(anchor="observation")(batch).advantages
        assert np.array_equal(one, other)


def test_a_text_of_two_states_biases_the_gradient():
    """Two states look alike. One is always followed by a reward, the other never.

    The actions change nothing, so the exact advantages are 0, and by symmetry so is the mean
    advantage of each action in a state.
    """
    walks = [
        trajectory([1, 1], [0.0, float(start == "rich")], keys=[start, "end"],
                   observations=["door", "end"], seed=0)
        for start in ("rich", "poor", "rich", "poor")
    ]  # fmt: skip
    batch = Batch.of(walks)
    apart, merged = (
        GiGPO(1.0, scale=False, anchor=anchor)(batch).advantages - dr_grpo()(batch).advantages
        for anchor in ("state", "observation")
    )
    assert np.allclose(apart[::2], 0.0)
    assert np.allclose(merged[::2], [0.5, -0.5, 0.5, -0.5])


def test_mistakes_are_named():
    wrong: Any = "text"
    for make, match in (
        (lambda: GraphGPO(omega=2.0), "omega"),
        (lambda: G2PO(gamma=-1.0), "gamma"),
        (lambda: GAGPO(lambda_=2.0), "lambda_"),
        (lambda: GiGPO(anchor=wrong), "anchor must be 'state' or 'observation', got 'text'"),
        (lambda: HGPO(anchor=wrong), "anchor must be"),
    ):
        with pytest.raises(ValueError, match=match):
            make()


def test_an_empty_batch_has_no_edges():
    batch = Batch.of([])
    edges = edges_of(batch)
    assert edges.nodes == () and len(edges.source) == len(edges.target) == 0
    assert len(shortest_paths(batch, edges)) == 0
