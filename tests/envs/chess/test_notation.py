"""Moves as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

chess = pytest.importorskip("chess")

from agentgym.envs.chess.game import Chess  # noqa: E402

MIDDLE = "r3k2r/pPp2ppp/2n5/3pP3/2B5/5N2/P1P2PPP/R3K2R w KQkq d6 0 9"
FIGURINES = dict(zip("KQRBN", "\u2654\u2655\u2656\u2657\u2658", strict=True))


def played(action: str, position: str = MIDDLE) -> str:
    """Returns the move that an action plays, or "" if it is illegal."""
    env = Chess(position=position)
    env.reset(seed=0)
    env.step(action)
    return env.state.moves[0] if env.state.moves else ""


@pytest.mark.parametrize(
    ("action", "move"),
    [
        ("9. Nd4", "f3d4"),
        ("9.Nd4", "f3d4"),
        ("9... Nd4", "f3d4"),
        ("\u2658d4", "f3d4"),
        ("\u265ed4", "f3d4"),
        ("Nf3-d4", "f3d4"),
        ("f3-d4", "f3d4"),
        ("f3\u2013d4", "f3d4"),
        ("F3D4", "f3d4"),
        ("Nd4!", "f3d4"),
        ("Nd4!?", "f3d4"),
        ("Action: 9. Nd4", "f3d4"),
        ("**Nd4**", "f3d4"),
        ("Move: Nd4", "f3d4"),
        ("My move is f3d4.", "f3d4"),
        ("\\boxed{Nd4}", "f3d4"),
        ("<move>Nd4</move>", "f3d4"),
        ("My move is not Nd4.", ""),
        ("0-0", "e1g1"),
        ("O\u2011O", "e1g1"),
        ("0-0-0", "e1c1"),
        ("exd6 e.p.", "e5d6"),
        ("exd6 ep", "e5d6"),
        ("\uff45xd6", "e5d6"),
        ("b8(Q)", "b7b8q"),
        ("b8/N", "b7b8n"),
        ("b8=Q+", "b7b8q"),
        ("Bxd5 e.p.", ""),
        ("9. Nd4 Nxd4", ""),
        ("Nd4 or Ng5", ""),
        ("not Nd4", ""),
        ("Nd4 if he castles", ""),
        ("9.", ""),
        ("!", ""),
    ],
)
def test_a_move_is_read_in_its_usual_forms(action: str, move: str):
    assert played(action) == move


@settings(max_examples=40)
@given(st.data())
def test_a_variant_plays_the_same_move_or_none(data):
    env = Chess(position=MIDDLE)
    _, info = env.reset(seed=0)
    name = data.draw(st.sampled_from(info["admissible"]))
    move = played(name)
    figurine = FIGURINES.get(name[0], name[0]) + name[1:]
    for variant in (f"9. {name}", f"9.{name}", figurine, f"{name}!", name.replace("O", "0")):
        assert played(variant) == move
    for variant in (f"{name} {name}", f"{name} x", f"9. {name} e5"):
        assert played(variant) == ""


@settings(max_examples=50)
@given(st.text(max_size=20))
def test_any_text_is_survived(text: str):
    played(text)
