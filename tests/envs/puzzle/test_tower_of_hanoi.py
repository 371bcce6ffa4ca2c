"""TowerOfHanoi: legal moves, and an expert that is optimal from any position."""

from __future__ import annotations

from collections import deque
from itertools import product

import pytest

from agentgym.envs.puzzle.tower_of_hanoi import (
    RODS,
    TowerOfHanoi,
    moves,
    moves_left,
    next_move,
    top,
)


@pytest.mark.parametrize("disks", [2, 3, 4])
def test_the_expert_s_way_is_the_shortest_from_every_position(disks: int):
    goal: tuple[int, ...] = (2,) * disks
    distance: dict[tuple[int, ...], int] = {goal: 0}
    queue: deque[tuple[int, ...]] = deque([goal])
    while queue:
        rods = queue.popleft()
        for source, target in moves(list(rods)):
            after: list[int] = list(rods)
            disk = top(after, source)
            assert disk is not None
            after[disk] = target
            if tuple(after) not in distance:
                distance[tuple(after)] = distance[rods] + 1
                queue.append(tuple(after))
    assert len(distance) == 3**disks
    for rods in product(range(3), repeat=disks):
        assert moves_left(list(rods), 2) == distance[rods]
        move = next_move(list(rods), 2)
        assert (move is None) == (rods == goal)
        if move is not None:
            after = list(rods)
            disk = top(after, move[0])
            assert move in moves(after) and disk is not None
            after[disk] = move[1]
            assert distance[tuple(after)] == distance[rods] - 1


def test_the_classic_tower_takes_fifteen_moves():
    env = TowerOfHanoi()
    text, _ = env.reset(seed=0, options={"task": "rods/AAAA"})
    assert text == "A: 4 3 2 1\nB: empty\nC: empty"
    rewards = [env.step(str(env.expert()))[1] for _ in range(15)]
    assert rewards == [0.0] * 14 + [1.0]


def test_what_is_not_allowed_is_said():
    env = TowerOfHanoi(disks=2)
    env.reset(seed=0, options={"task": "rods/AB"})
    for action, reason in [
        ("B to A", "larger"), ("C to A", "empty"), ("A to A", "the same"), ("up", "for example"),
    ]:  # fmt: skip
        text, reward, _, _, info = env.step(action)
        assert reason in text and not info["valid"] and reward == 0
    assert env.step("move a -> c")[4]["valid"]
    assert env.state.rods == [RODS.index("C"), RODS.index("B")]
    with pytest.raises(ValueError, match="disks"):
        TowerOfHanoi(disks=1)


@pytest.mark.parametrize(
    ("action", "valid"),
    [
        ("Move disk 2 from A to C", True),
        ("move the top disk from rod A to rod C.", True),
        ("Move: A to C", True),
        ("\\boxed{A -> C}", True),
        ("(A, C)", True),
        ("Move disk 1 from A to C", False),
        ("disk 2 to C", False),
        ("not A to C", False),
        ("A to C, then B to C", False),
        ("A or B to C", False),
    ],
)
def test_moves_may_name_the_disk_and_the_rods(action: str, valid: bool):
    env = TowerOfHanoi(disks=4)
    env.reset(seed=0, options={"task": "rods/BABB"})
    text, _, _, _, info = env.step(action)
    assert info["valid"] == valid == ("C: 2" in text)
    assert ("not the top disk of rod A" in text) == ("disk 1" in action)
