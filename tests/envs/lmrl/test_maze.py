from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.lmrl.maze import FIXED, MOVES, REWARDS, Maze, cells, distances, moved

GOLDEN = Path(__file__).parents[4] / "shared" / "golden" / "lmrl_maze.jsonl.gz"
NAMES = {
    "double_t_maze": "double_t",
    "umaze": "u",
    "describe_observation_give_position": "position",
    "describe_observation": "goal",
    "describe_observation_only_walls": "walls",
    "standard_reward": "standard",
    "illegal_penalty_reward": "illegal_penalty",
    "illegal_penalty_diff_scale": "scaled",
}


def original_action(action: str) -> str:
    """The original requires a line break after a move. Ours accepts a move without one, too."""
    return action if action.endswith("\n") else "no move"


def replay(record: dict[str, Any]) -> None:
    maze = NAMES[record["maze"]]
    env = Maze(maze=maze, describe=NAMES[record["describe"]], reward=NAMES[record["reward_fn"]])
    row, column = record["init"]
    ours, info = env.reset(seed=0, options={"task": f"{maze}/{row},{column}"})
    assert list(env.state.goal) == record["goal"]
    pairs = {(record["obs0"], ours)}
    for step in record["steps"]:
        observation, reward, terminated, truncated, info = env.step(original_action(step["action"]))
        assert reward == step["reward"]
        assert (terminated or truncated) == step["done"]
        assert list(env.state.position) == step["pos"]
        if step["obs"] == "Failure\n":
            assert truncated and observation.startswith("Failure")
        else:
            assert info["success"] == terminated == (step["obs"] == "Success\n")
            pairs.add((step["obs"], observation.rpartition("\n\n")[2]))
    theirs, own = zip(*pairs, strict=True)
    assert len(set(theirs)) == len(set(own)) == len(pairs), "equal where the original's are"


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden records")
def test_the_original_plays_the_same():
    records = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).splitlines()]
    assert len({(r["maze"], r["describe"], r["reward_fn"]) for r in records}) == 18
    for record in records:
        replay(record)


@pytest.mark.parametrize(("maze", "count"), [("double_t", 25), ("u", 6)])
def test_the_fixed_mazes(maze: str, count: int):
    grid, goal, start = FIXED[maze]
    tasks = Maze(maze=maze).tasks
    assert len(cells(grid)) == count + 1 == len(distances(grid, goal))
    assert len(tasks.train) + len(tasks.test) == count
    assert f"{maze}/{start[0]},{start[1]}" in tasks.test


def test_the_double_t_maze_is_walked_as_drawn():
    env = Maze()
    env.reset(options={"task": "double_t/1,1"})
    way = ["right"] * 2 + ["down"] * 4 + ["right"] * 3 + ["down"] * 3
    for side in way[:-1]:
        assert env.expert() == f"move {side}"
        assert env.step(f"  Move {side.upper()}\n")[1:3] == (-1.0, False)
    observation, reward, terminated, _, info = env.step("move down")
    assert reward == 0 and terminated and info["success"] and info["progress"] == 1
    assert info["admissible"] == ()
    assert observation == "Success."


@pytest.mark.parametrize("reward", REWARDS)
def test_rewards_of_a_wall_and_of_nonsense(reward: str):
    env = Maze(reward=reward)
    env.reset(options={"task": "double_t/1,1"})
    _, wall, _, _, info = env.step("move up")
    assert wall == REWARDS[reward][1] and info["valid"]
    observation, nonsense, _, _, info = env.step("jump")
    assert nonsense == -REWARDS[reward][2] and not info["valid"]
    assert "jump" in observation and observation.endswith("Walls: left, above, below.")
    assert info["reward_terms"] == {"task": 0.0, "invalid": -REWARDS[reward][2]}


def test_the_turn_after_the_hundredth_move_is_not_played():
    env = Maze(maze="u")
    env.reset(options={"task": "u/2,3"})
    for _ in range(100):
        _, _, terminated, truncated, _ = env.step("move up")
        assert not terminated and not truncated
    observation, reward, terminated, truncated, info = env.step("move down")
    assert (reward, terminated, truncated, info["success"]) == (-1.0, False, True, False)
    assert observation.startswith("Failure")
    assert env.state.position == (1, 3)


def test_what_is_described():
    texts = {}
    for what in ("position", "goal", "walls"):
        env = Maze(describe=what)
        texts[what] = env.reset(options={"task": "double_t/1,3"})[0]
    assert texts == {
        "position": "The goal is at row 8, column 6. You are at row 1, column 3. Walls: above.",
        "goal": "The goal is at row 8, column 6. Walls: above.",
        "walls": "Walls: above.",
    }


def test_the_state_is_told_apart_where_the_text_does_not():
    env = Maze(describe="walls")
    one = env.reset(options={"task": "double_t/2,3"})
    other = env.reset(options={"task": "double_t/3,3"})
    assert one[0] == other[0]
    assert one[1]["state_key"] != other[1]["state_key"]


def test_random_mazes_are_solved_and_differ():
    env = Maze(maze="random", size=5)
    grids = set()
    for number in range(20):
        env.reset(options={"task": f"train/{number}"})
        state = env.state
        free = cells(state.grid)
        assert len(free) == 2 * 5 * 5 - 1 == len(distances(state.grid, state.goal))
        grids.add(state.grid)
        ends = [env.step(env.expert() or "")[2] for _ in range(state.distance)]
        assert ends == [False] * (state.distance - 1) + [True]
    assert len(grids) == 20


def test_the_longest_way_fits_into_the_turns():
    env = Maze(maze="random", size=30)
    longest = 0
    for number in range(10):
        env.reset(options={"task": f"test/{number}"})
        longest = max(longest, *distances(env.state.grid, env.state.goal).values())
    assert 101 < longest < (env.max_turns or 0)
    assert Maze(size=30).max_turns == Maze(maze="random").max_turns == 101


def test_moves_never_leave_the_free_cells():
    for grid, _, _ in FIXED.values():
        free = set(cells(grid))
        assert all(moved(grid, cell, move) in free for cell in free for move in MOVES)


@pytest.mark.parametrize(
    "kwargs", [{"maze": "v"}, {"describe": "x"}, {"reward": "std"}, {"size": 1}, {"size": 51}]
)
def test_bad_arguments(kwargs: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        Maze(**kwargs)
