"""BabaIsAI: blocks form rules, pushes change them, and the expert wins every kind of level."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.baba.baba_is_ai import BabaIsAI
from agentgym.envs.baba.board import Board, move, rules_of
from agentgym.envs.baba.levels import KINDS, level_of
from agentgym.envs.baba.solver import solution
from agentgym.envs.grid.moves import DIRECTIONS
from agentgym.errors import ConfigError

WORDS = {"B": "baba", "W": "wall", "L": "ball", "K": "key", "I": "is", "Y": "you", "N": "win"}
WORDS |= {"S": "stop"}
OBJECTS = {"b": "baba", "w": "wall", "l": "ball", "k": "key"}


def board_of(picture: str) -> Board:
    """Parses a map: capitals are blocks, other letters are objects."""
    rows = picture.split()
    pieces = [(x, (r, c)) for r, row in enumerate(rows) for c, x in enumerate(row)]
    blocks = tuple((WORDS[x], square) for x, square in pieces if x in WORDS)
    objects = tuple((OBJECTS[x], square) for x, square in pieces if x in OBJECTS)
    return Board(len(rows), len(rows[0]), blocks, objects)


def played(picture: str, *moves: str) -> Board:
    """Returns the board after some moves."""
    board = board_of(picture)
    for name in moves:
        board = move(board, DIRECTIONS[name])
    return board


@pytest.mark.parametrize(
    ("picture", "rules"),
    [
        ("BIY", [("baba", "you")]),
        ("B I Y", [("baba", "you")]),
        ("YIB", []),
        ("BIYIN", [("baba", "you")]),
        ("KIL", [("key", "ball")]),
        (".L. BIY .N.", [("baba", "you"), ("ball", "win")]),
        ("BI. ..Y", []),
    ],
)
def test_rules_are_read_from_left_to_right_and_from_top_to_bottom(picture: str, rules: list):
    assert list(board_of(picture).rules) == rules


@pytest.mark.parametrize(
    ("picture", "direction", "after"),
    [
        ("BIY b..", "right", "BIY .b."),
        ("BIY b..", "left", "BIY b.."),
        ("BIY. bLK.", "right", "BIY. .bLK"),
        ("BIY bLK", "right", "BIY bLK"),
        ("BIY... WIS... b.w...", "right", "BIY... WIS... .bw..."),
        ("BIY... WIS... .bw...", "right", "BIY... WIS... .bw..."),
        ("BIY... WIS... bLw...", "right", "BIY... WIS... bLw..."),
        ("BIY bwL .w.", "down", "BIY .wL bw."),
        ("BIY... bbL...", "right", "BIY... .bbL.."),
    ],
)
def test_moves(picture: str, direction: str, after: str):
    board, expected = played(picture, direction), board_of(after)
    assert sorted(board.blocks) == sorted(expected.blocks)
    assert sorted(board.objects) == sorted(expected.objects)


def test_a_push_makes_a_rule_and_reaching_the_object_wins():
    level = "BIY.. ..IN. .L... .b.l."
    made = played(level, "up")
    assert made.rules == (("baba", "you"), ("ball", "win"))
    assert not made.won
    reached = played(level, "up", "down", "right", "right")
    assert reached.won
    assert not played(level, "right", "right").won


def test_a_broken_rule_opens_the_wall():
    closed = "BIY... ...... WIS... ..bw.."
    assert played(closed, "right").objects[0] == ("baba", (3, 2))
    opened = played(closed, "up", "down", "right")
    assert opened.rules == (("baba", "you"),)
    assert opened.objects[0] == ("baba", (3, 3))


def test_pushing_another_noun_into_a_rule_makes_that_object_you():
    level = "b.... L..l. BIY.. ....."
    assert played(level, "down").rules == (("ball", "you"),)
    assert played(level, "down", "right").objects == (("baba", (1, 0)), ("ball", (1, 4)))


def test_a_rule_between_nouns_turns_objects():
    turned = played("BIY.... .LI.Kb. .....l.", "left")
    assert turned.rules == (("baba", "you"), ("ball", "key"))
    assert [name for name, _ in turned.objects] == ["baba", "key"]
    kept = played("BIY.... .LI.Kb. .I...l. .L.....", "left")
    assert kept.rules == (("baba", "you"), ("ball", "key"), ("ball", "ball"))
    assert [name for name, _ in kept.objects] == ["baba", "ball"]


def test_a_level_in_which_nothing_is_you_is_lost():
    env = BabaIsAI(kind="goto_win")
    env.reset(seed=0)
    env.state = board_of("..b. BIY. .... ....")
    observation, reward, terminated, _, info = env.step("down")
    assert "Nothing is you. The level is lost." in observation
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    assert not info["admissible"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_expert_wins_every_kind_of_level(kind: str):
    env = BabaIsAI(kind=kind)
    for i in range(4):
        env.reset(seed=0, options={"task": f"{('train', 'test')[i % 2]}/{i}"})
        planned = solution(env.state, env.level.plan)
        assert planned is not None
        results = [env.step(env.expert() or "") for _ in planned]
        assert [terminated for _, _, terminated, _, _ in results].index(True) == len(planned) - 1
        assert results[-1][1] == 1.0 and results[-1][-1]["success"]


def test_no_level_is_in_both_splits():
    train, test = (
        {level_of(f"{split}/{i}", "goto_win").board for i in range(100)}
        for split in ("train", "test")
    )
    assert len(train) > 90 and not train & test


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.lists(st.sampled_from(sorted(DIRECTIONS)), max_size=60))
def test_pieces_stay_on_the_map_and_objects_out_of_solid_squares(number: int, moves: list[str]):
    board = level_of(f"train/{number}", "hard").board
    words = [word for word, _ in board.blocks]
    for name in moves:
        solid, before = set(board.squares("stop")), board
        board = move(board, DIRECTIONS[name])
        assert [word for word, _ in board.blocks] == words
        assert len({square for _, square in board.blocks}) == len(words)
        assert all(board.inside(square) for _, square in (*board.blocks, *board.objects))
        entered = {s for _, s in board.objects} - {s for _, s in before.objects}
        entered |= {s for _, s in board.blocks} - {s for _, s in before.blocks}
        assert not entered & solid
        assert board.rules == rules_of(tuple(reversed(board.blocks)))


def test_everything_is_described_from_the_object_that_is_you():
    env = BabaIsAI()
    env.reset(seed=0)
    env.state = board_of("BIY. ..l. b... .bw.")
    observation, *_ = env.step("idle")
    assert observation == (
        "Active rules:\nbaba is you\n\nObjects on the map:\nbaba: you\n"
        "ball 2 steps to the right and 1 step up\n"
        "baba (you, too) 1 step to the right and 1 step down\n"
        "wall 2 steps to the right and 1 step down\n"
        "rule `baba` 2 steps up\n"
        "rule `is` 1 step to the right and 2 steps up\n"
        "rule `you` 2 steps to the right and 2 steps up\n"
        "edges of the map 3 to the right, 0 to the left, 1 down and 2 up"
    )


def test_another_kind_is_refused():
    with pytest.raises(ConfigError, match=r"^kind must be one of"):
        BabaIsAI(kind="three_room")
