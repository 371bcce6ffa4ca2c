"""Pictures: every id that offers them draws its state, and all others say that they have none."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordVideo, RenderCollection

import agentgym
from agentgym.errors import MissingExtraError, UnknownArgumentError
from agentgym.registration.ids import TABLE
from agentgym.registration.making import render_modes
from agentgym.rendering import SIZE, Cell, Scene, card, draw, from_map, hand, pixels, table

pytest.importorskip("PIL", reason="needs the extra `render`")


def offers_pictures(id: str) -> bool:
    try:
        return "rgb_array" in render_modes(id)
    except MissingExtraError:
        return False


IDS = [entry.id for entry in TABLE if offers_pictures(entry.id)]
GAMES = [entry.id for entry in TABLE if entry.id in IDS and entry.multi_agent]
by_id = pytest.mark.parametrize("id", IDS)


def make(id: str) -> Any:
    return gymnasium.make(id, render_mode="rgb_array")


def played(env: Any, seed: int, turns: int = 8) -> list[tuple[Any, np.ndarray]]:
    """Plays as the expert. Returns the state and the picture of each turn."""
    env.reset(seed=seed)
    found = [(env.unwrapped.snapshot(), env.render())]
    for _ in range(turns):
        *_, terminated, truncated, _ = env.step(env.unwrapped.expert() or "")
        found.append((env.unwrapped.snapshot(), env.render()))
        if terminated or truncated:
            break
    return found


def test_grids_boards_and_cards_have_pictures():
    families = {entry.entry_point.split(".")[2] for entry in TABLE if entry.id in IDS}
    assert families >= {"grid", "board", "cards", "overcooked", "baba", "crafter", "puzzle"}
    assert len(IDS) > 30 and len(GAMES) > 10


@by_id
def test_pictures_have_one_shape_and_follow_the_state(id: str):
    env = make(id)
    assert env.metadata["render_fps"] == 4
    frames = [frame for seed in range(2) for _, frame in played(env, seed)]
    assert {frame.shape for frame in frames} == {(SIZE, SIZE, 3)}
    assert {frame.dtype for frame in frames} == {np.dtype(np.uint8)}
    assert len({frame.tobytes() for frame in frames}) > 3, "other states, other pictures"
    assert all((frame != frame[0, 0]).any() for frame in frames)


@by_id
def test_a_picture_depends_on_the_state_alone_and_does_not_change_it(id: str):
    env, other = make(id), make(id)
    for snapshot, frame in played(env, 1, turns=3):
        other.unwrapped.restore(snapshot)
        assert (other.unwrapped.render() == frame).all()
        assert other.unwrapped.snapshot() == snapshot


@by_id
def test_gymnasium_finds_nothing_wrong_and_collects_frames(id: str):
    check_env(make(id).unwrapped, skip_render_check=False)
    env = gymnasium.make(id, render_mode="rgb_array_list")
    assert isinstance(env, RenderCollection)
    env.reset(seed=0)
    env.step("")
    frames: Any = env.render()
    assert [frame.shape for frame in frames] == [(SIZE, SIZE, 3)] * 2


@by_id
def test_an_invalid_action_leaves_the_picture(id: str):
    env = make(id)
    env.reset(seed=2)
    before = env.unwrapped._frame()
    if env.unwrapped._invalid("No.").text and id not in GAMES:
        assert env.unwrapped._frame() == before


@pytest.mark.parametrize("id", GAMES)
@pytest.mark.parametrize("make_game", [agentgym.make_aec, agentgym.make_parallel])
def test_games_draw_for_spectators(id: str, make_game: Any):
    env = make_game(id, render_mode="rgb_array")
    assert "rgb_array" in env.metadata["render_modes"]
    env.reset(seed=0)
    assert env.render().shape == (SIZE, SIZE, 3)
    assert env.render().dtype == np.uint8


def test_spectators_see_cards_that_seats_do_not():
    game = agentgym.make_parallel("AgentGym/KuhnPoker-v0").game
    game.reset(seed=0)
    scenes = {agent: game._frame(agent) for agent in (*game.possible_agents, None)}
    faces = {
        agent: [[cell.label for cell in row if cell.shape == "card"] for row in scene.rows]
        for agent, scene in scenes.items()
    }
    assert faces["player_0"][1] == faces["player_1"][0] == [""]
    assert faces[None] == [faces["player_0"][0], faces["player_1"][1]]
    env = gymnasium.make("AgentGym/KuhnPoker-v0", seat="player_1", render_mode="rgb_array")
    env.reset(seed=0)
    seat: Any = env.unwrapped
    assert seat._frame() == seat.game._frame("player_1") != seat.game._frame(None)


@pytest.mark.filterwarnings("ignore:.*not in the possible render_modes")
@pytest.mark.parametrize("id", ["WebShop-v0", "NumberLine-v0", "PrisonersDilemma-v0"])
def test_text_environments_say_that_they_have_no_pictures(id: str):
    assert "rgb_array" not in render_modes(id)
    with pytest.raises(UnknownArgumentError, match="has no pictures: its state is text"):
        agentgym.make_env(id, render_mode="rgb_array")
    env = agentgym.make_env(id)
    assert env.metadata["render_modes"] == ["ansi", "human"]


def test_a_game_of_text_has_no_pictures_in_pettingzoo():
    for make_game in (agentgym.make_aec, agentgym.make_parallel):
        with pytest.raises(UnknownArgumentError, match="has no pictures"):
            make_game("AgentGym/PrisonersDilemma-v0", render_mode="rgb_array")


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    pixels._pillow.cache_clear()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "PIL", None)
        env = make("AgentGym/FrozenLake-v0")
        env.reset(seed=0)
        with pytest.raises(MissingExtraError, match=r"render_mode='rgb_array'.*\[render\]"):
            env.unwrapped.render()
    pixels._pillow.cache_clear()


def test_a_video_is_recorded(tmp_path):
    pytest.importorskip("moviepy", reason="RecordVideo needs it")
    env = RecordVideo(
        make("AgentGym/FrozenLake-Dry-v0"), str(tmp_path / "videos"), episode_trigger=bool
    )
    for seed in (0, 1):
        played(env, seed)
    env.close()
    (video,) = tmp_path.rglob("*.mp4")
    assert video.stat().st_size > 1000


# Scenes.


def test_shapes_labels_and_captions_are_drawn():
    blank = draw(Scene([[Cell()]]))
    shapes = ("disc", "ring", "cross", "box", "star", "up", "right", "down", "left", "bar", "card")
    found = {draw(Scene([[Cell(shape=shape)]])).tobytes() for shape in shapes}
    assert len(found) == len(shapes) and blank.tobytes() not in found
    for scene in (
        Scene([[Cell(label="a")]]),
        Scene([[Cell()]], "a"),
        Scene([[Cell(ground="#000000")]]),
        Scene([[Cell()]], lines=False),
        Scene([[Cell()]], columns=2),
    ):
        assert (draw(scene) != blank).any(), scene


def test_the_picture_of_a_wide_or_empty_scene_has_the_same_shape():
    for scene in (Scene([]), Scene([[Cell()] * 40]), Scene([[Cell()], [Cell()] * 3], "a\nb")):
        assert draw(scene).shape == (SIZE, SIZE, 3)


def test_a_long_label_stays_in_its_cell():
    frame = draw(Scene([[Cell(label="a very long label"), Cell(ground="#000000")]]))
    right = frame[:, SIZE // 2 + 4 : SIZE - 4]
    middle = right[SIZE // 2 - 20 : SIZE // 2 + 20]
    assert (middle == 0).all()


def test_a_map_uses_its_legend_and_labels_other_characters():
    scene = from_map(["#.", "7#"], {"#": Cell("#000000"), ".": Cell()})
    assert [[cell.ground == "#000000" for cell in row] for row in scene.rows] == [
        [True, False],
        [False, True],
    ]
    assert scene.rows[1][0].label == "7"


def test_a_card_that_is_face_down_has_no_label():
    scene = table([hand("me", ["Q", None])])
    assert [cell.label for cell in scene.rows[0]] == ["me", "Q", ""]
    assert scene.rows[0][2] == card(None) != card("Q")
