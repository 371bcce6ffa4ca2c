"""`PartialObservation`: what is hidden, how often, and that seeds decide it."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from agentgym.errors import ConfigError
from agentgym.registration.making import make_env
from agentgym.spaces import UnicodeText
from agentgym.wrappers import PartialObservation
from agentgym.wrappers.partial_observation import HIDDEN


def seen(share: float, parts: str, seed: int = 0, turns: int = 30) -> list[tuple[str, str]]:
    """Returns shown and whole observations of an episode of invalid actions."""
    plain, inner = (make_env("Household-v0", max_turns=None) for _ in range(2))
    env = PartialObservation(inner, share, parts=parts)  # pyright: ignore[reportArgumentType]
    pairs = [(env.reset(seed=seed)[0], plain.reset(seed=seed)[0])]
    for _ in range(turns):
        pairs.append((env.step("dance")[0], plain.step("dance")[0]))
    return pairs


@pytest.mark.parametrize("parts", ["words", "lines"])
def test_shown_parts_are_those_of_the_observation_and_the_share_is_hidden(parts: str):
    first, *pairs = seen(0.3, parts)
    assert first[0] == first[1]
    hidden = total = 0
    for shown, whole in pairs:
        assert shown.count("\n") == whole.count("\n")
        one, other = (t.split("\n") if parts == "lines" else t.split() for t in (shown, whole))
        assert len(one) == len(other)
        assert all(a == b for a, b in zip(one, other, strict=True) if HIDDEN not in a)
        hidden += sum(HIDDEN in each for each in one)
        total += sum(any(c.isalnum() for c in each) or parts == "lines" for each in other if each)
    assert 0.2 < hidden / total < 0.4


def test_seeds_and_turns_decide_what_is_hidden():
    assert seen(0.3, "words") == seen(0.3, "words")
    one, other = seen(0.3, "words"), seen(0.3, "words", seed=1)
    assert {shown for shown, _ in one} != {shown for shown, _ in other}
    assert len({shown for shown, _ in one[1:]}) > 20  # another mask every turn


def test_a_share_of_one_hides_all_and_of_none_nothing():
    assert all(shown == whole for shown, whole in seen(0.0, "words", turns=3))
    assert {*seen(1.0, "lines", turns=3)[2][0].split("\n")} <= {HIDDEN, ""}
    with pytest.raises(ConfigError, match=r"share must be in \[0, 1\], got 1.5"):
        PartialObservation(make_env("NumberLine-v0"), 1.5)


class OwnRandomness(gymnasium.Env[str, str]):
    """Samples by itself, as many environments do, and leaves `np_random` alone."""

    observation_space = action_space = UnicodeText()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        if options:
            raise ValueError("no options")
        return "a b c", {}


def test_unseeded_episodes_differ_where_the_environment_ignores_np_random():
    env, seeds = PartialObservation(OwnRandomness()), set()
    for _ in range(3):
        before = env.np_random.bit_generator.state
        with pytest.raises(ValueError, match="no options"):
            env.reset(options={"a": 1})
        assert env.np_random.bit_generator.state == before
        env.reset()
        seeds.add(env._memory()["seed"])
    assert len(seeds) == 3
