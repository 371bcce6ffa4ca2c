"""The benchmark of behaviour cloning: its limits, and the reasons of ids without a result."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tyro

pytest.importorskip("torch")

from agentgym.agents.basic.expert import NoExpertError
from agentgym.errors import AgentGymError, ConfigError, MissingExtraError
from agentgym.registration.ids import TABLE
from agentgym.registration.making import make_env
from benchmarks.learning import imitation

ENTRIES = {entry.name: entry for entry in TABLE}


def prompts(name: str, seed: int) -> list[str]:
    """Returns the last three turns and the observation before each action of the expert."""
    env = make_env(name)
    observation, _ = env.reset(seed=seed)
    parts, found, over = [observation], [], False
    while not over:
        found.append("".join(parts[-7:]))
        action = env.unwrapped.expert()  # type: ignore[attr-defined]
        observation, _, terminated, truncated, _ = env.step(action)
        parts += [action, observation]
        over = terminated or truncated
    return found


@pytest.mark.parametrize("name", ["Arithmetic-v0", "Blocksworld-v0"])
def test_the_characters_of_a_demonstration_are_those_of_its_prompts(name: str):
    texts = [prompts(name, seed) for seed in range(3)]
    assert max(map(len, texts)) > 4 or name == "Arithmetic-v0"
    expected = sum(len(text) for episode in texts for text in episode) / 3
    assert imitation.shape(name, episodes=3).characters == pytest.approx(expected)


def test_long_prompts_shrink_the_number_of_demonstrations():
    def demonstrations(characters: int | None) -> int:
        return imitation.cloning("Blocksworld-v0", 300, 6000, characters)["bc_demonstrations"]

    characters = imitation.shape("Blocksworld-v0").characters
    assert demonstrations(None) == demonstrations(10**9) == 300
    assert demonstrations(round(50 * characters)) == 50
    assert demonstrations(1) == 3


def test_long_episodes_shrink_the_evaluation():
    turns = sum(imitation.mean_turns("Blocksworld-v0", each) for each in ("random", "expert")) / 2
    assert imitation.held_out("Blocksworld-v0", 100, None) == 100
    assert imitation.held_out("Blocksworld-v0", 100, 10**6) == 100
    assert imitation.held_out("Blocksworld-v0", 100, round(40 * turns)) == 40
    assert imitation.held_out("Blocksworld-v0", 100, 1) == 20


def test_the_command_of_older_rows_has_no_limits():
    words = "--ids Ferry-v0 --again --characters None --evaluated-turns None".split()
    settings = tyro.cli(imitation.Settings, args=words)
    assert (settings.characters, settings.evaluated_turns) == (None, None)


@pytest.mark.parametrize(
    ("name", "error", "expected"),
    [
        ("ALFWorld-v0", None, "needs files of the user"),
        ("Jericho-v0", NoExpertError(), "no scripted expert"),
        ("Chess-v0", MissingExtraError("Chess", "chess"), "the extra `chess` is not installed"),
        ("Ferry-v0", ConfigError("wrong"), None),
    ],
)
def test_reasons(name: str, error: AgentGymError | None, expected: str | None):
    assert imitation.reason(ENTRIES[name], error) == expected


def test_results_and_reasons_are_written_in_the_order_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    agent = {"reward": 1.0, "success": 1.0, "progress": 1.0}
    row: dict[str, Any] = {"random": agent, "imitation": agent, "expert": agent}
    errors = {"Jericho-v0": NoExpertError("none"), "Maze-v0": KeyError("wrong")}

    def measure(name: str, settings: Any) -> dict[str, Any]:
        if name in errors:
            raise errors[name]
        return row

    path = tmp_path / "imitation.json"
    path.write_text(json.dumps({"settings": {}, "environments": {"TextCraft-v0": row}}))
    monkeypatch.setattr(imitation, "measure", measure)
    monkeypatch.setattr(
        imitation, "ProcessPoolExecutor", lambda jobs, mp_context: ThreadPoolExecutor(jobs)
    )
    ids = ("Jericho-v0", "Maze-v0", "Auction-v0", "Ferry-v0")
    with pytest.raises(SystemExit, match=r"^Failed: Maze-v0$"):  # Jericho has a good reason
        imitation.main(imitation.Settings(ids, out=path))
    found = json.loads(path.read_text())
    assert list(found["environments"]) == ["Ferry-v0", "TextCraft-v0", "Auction-v0"]
    reasons = {"ALFWorld-v0": "needs files of the user", "Jericho-v0": "no scripted expert"}
    assert found["skipped"] == reasons
    assert found["settings"]["characters"] == 500_000
    with pytest.raises(SystemExit, match=r"demonstrations = 300 -> 20, passes = 5 -> 2"):
        imitation.main(imitation.Settings(ids, demonstrations=20, epochs=2, out=path))
