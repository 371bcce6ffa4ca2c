from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.tokens.context import PlainContext, PlainFormat
from agentgym.wrappers import TokenAction

from ..helpers.echo import Echo
from ..helpers.tokenizers import LATIN, Characters

END = LATIN.eos_token_id
said = st.text(LATIN.alphabet, max_size=8)


def say(env: TokenAction, text: str) -> list[tuple[Any, ...]]:
    """Emits the characters of a text, and the end token if needed."""
    steps: list[tuple[Any, ...]] = []
    for token in [*LATIN.encode(text, add_special_tokens=False), END]:
        steps.append(env.step(token))
        if steps[-1][4]["turn_end"]:
            break
    return steps


def text_of(observation: dict[str, np.ndarray]) -> str:
    """The prompt, in which "�" is the end token, without the instructions."""
    text = LATIN.decode(observation["tokens"][: observation["length"][0]].tolist())
    return text.removeprefix(RULES)


RULES = LATIN.decode([*LATIN.encode(f"{Echo.instructions}\n\n", add_special_tokens=False)])


@given(st.lists(said, min_size=1, max_size=5), st.sampled_from([0.5, 1.0]))
def test_the_same_texts_have_the_same_return_as_in_the_turn_view(texts: list[str], gamma: float):
    turns = Echo(max_turns=4, invalid_penalty=0.5)
    tokens = TokenAction(Echo(max_turns=4, invalid_penalty=0.5), LATIN, gamma=gamma)
    observation, _ = turns.reset(seed=1)
    prompt = f"{observation}\n> "
    assert text_of(tokens.reset(seed=1)[0]) == prompt
    for text in texts:
        observation, reward, terminated, truncated, info = turns.step(text)
        steps = say(tokens, text)
        prompt += f"{text}�\n{observation}\n> "
        assert text_of(steps[-1][0]) == prompt
        assert steps[-1][1:4] == (reward, terminated, truncated)
        assert [step[1] for step in steps[:-1]] == [0.0] * (len(steps) - 1)
        assert [step[4]["discount"] for step in steps] == [1.0] * (len(steps) - 1) + [gamma]
        assert [step[4]["turn_end"] for step in steps] == [False] * (len(steps) - 1) + [True]
        assert all(sum(step[4]["reward_terms"].values()) == step[1] for step in steps)
        inner = {k: v for k, v in steps[-1][4].items() if k not in ("turn_end", "discount")}
        assert inner == info
        if terminated or truncated:
            break


@given(st.sets(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=8), st.data())
def test_masked_play_says_exactly_the_admissible_actions(actions: set[str], data: Any):
    # Some candidates are prefixes of others.
    candidates = tuple(sorted(actions))
    env = TokenAction(Echo(admissible=candidates), LATIN, constrain=True)
    env.reset(seed=0)
    chosen = data.draw(st.sampled_from(candidates))
    say(env, chosen)
    assert env.unwrapped.state.said == [chosen]  # type: ignore[attr-defined]
    observation, _ = env.reset(seed=0)
    ended, info = False, {}
    while not ended:
        choices = np.flatnonzero(observation["action_mask"])
        assert np.array_equal(observation["action_mask"], env.action_masks())
        token = int(data.draw(st.sampled_from(choices.tolist())))
        observation, _, _, _, info = env.step(token)
        ended = info["turn_end"]
    assert info["valid"]
    assert env.unwrapped.state.said[0] in actions  # type: ignore[attr-defined]


def test_the_end_token_ends_every_candidate():
    env = TokenAction(Echo(admissible=("go", "go on", "stop")), LATIN, constrain=True)
    env.reset(seed=0)
    assert len(say(env, "go on")) == 6
    assert len(say(env, "go")) == 3
    steps = say(env, "stop")
    assert len(steps) == 5
    assert np.flatnonzero(steps[3][0]["action_mask"]).tolist() == [END]
    assert env.unwrapped.state.said == ["go on", "go", "stop"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("token", [END, LATIN.encode("x", add_special_tokens=False)[0]])
def test_a_token_that_is_not_allowed_makes_an_invalid_action(token: int):
    env = TokenAction(Echo(admissible=("go",)), LATIN, constrain=True)
    env.reset(seed=0)
    env.step(LATIN.encode("g", add_special_tokens=False)[0])
    observation, _, _, _, info = env.step(token)
    assert info["turn_end"]
    assert not info["valid"]
    assert "is not the start of a valid action" in text_of(observation)


def test_an_open_action_set_is_not_constrained():
    env = TokenAction(Echo(), LATIN, constrain=True)
    observation, _ = env.reset(seed=0)
    assert observation["action_mask"].all()
    say(env, "free")
    assert env.unwrapped.state.said == ["free"]  # type: ignore[attr-defined]


def test_the_budget_of_tokens_ends_an_action():
    env = TokenAction(Echo(), LATIN, max_action_tokens=3)
    env.reset(seed=0)
    steps = say(env, "abcdef")
    assert len(steps) == 3
    assert env.unwrapped.state.said == ["abc"]  # type: ignore[attr-defined]


def test_old_turns_are_left_out_and_the_beginning_of_a_long_page_is_kept():
    small = {"max_tokens": 24, "max_action_tokens": 8, "instructions": False}
    env = TokenAction(Echo(), LATIN, **small)
    assert text_of(env.reset(seed=0)[0]) == Echo().reset(seed=0)[0][:13] + "\n> "
    steps = say(env, "abc")
    assert text_of(steps[-1][0]) == "abc\n> "
    assert text_of(say(env, "d")[-1][0]) == "abc\n> d�\nd\n> "
    steps = say(env, "xyz")
    assert [text_of(step[0]) for step in steps] == [
        "abc\n> d�\nd\n> x", "abc\n> d�\nd\n> xy", "abc\n> d�\nd\n> xyz",
        "d\n> xyz�\nxyz\n> ",
    ]  # fmt: skip
    wide = TokenAction(Echo(), LATIN, max_tokens=len(RULES) + 20, max_action_tokens=8)
    wide.reset(seed=0)
    text = text_of(say(wide, "goal abc")[-1][0])
    assert text == "goal abc\n> "
    long = TokenAction(Echo(), LATIN, max_tokens=len(RULES) + 40, max_action_tokens=30)
    long.reset(seed=0)
    assert text_of(say(long, "goal abcdefghijklmno")[-1][0]) == "goal ab\n> "


def test_the_instructions_must_fit():
    env = TokenAction(Echo(), LATIN, max_tokens=20, max_action_tokens=8)
    with pytest.raises(ConfigError, match="no room for the instructions"):
        env.reset(seed=0)


def test_an_action_is_a_token():
    env = TokenAction(Echo(max_turns=1), LATIN)
    with pytest.raises(ResetNeeded):
        env.step(END)
    env.reset(seed=0)
    for wrong in (-1, len(LATIN)):
        with pytest.raises(ValueError, match=r"A token is an integer in \[0, \d+\), got"):
            env.step(wrong)
    with pytest.raises(TypeError):
        env.step("a")
    assert env.step(np.int64(END))[3]
    with pytest.raises(ResetNeeded):
        env.step(5)


@pytest.mark.parametrize(
    "kwargs", [{"end_token": 10**6}, {"gamma": 1.5}, {"max_tokens": 0}, {"max_action_tokens": 0}]
)
def test_wrong_arguments_are_refused(kwargs: dict[str, Any]):
    with pytest.raises(ConfigError):
        TokenAction(Echo(), LATIN, **kwargs)


@pytest.mark.parametrize("name", ["gpt2", None, 5])
def test_what_is_no_tokenizer_is_refused_as_such(name: Any):
    with pytest.raises(ConfigError, match=r"Expected a tokenizer.*from_pretrained"):
        TokenAction(Echo(), name)


def test_a_tokenizer_without_an_end_needs_one():
    class Endless(Characters):
        eos_token_id = None  # type: ignore[assignment]

    with pytest.raises(ConfigError, match="needs an end_token"):
        TokenAction(Echo(), Endless("ab"))
    env = TokenAction(Echo(), Endless("ab"), end_token=3)
    env.reset(seed=0)
    env.step(4)
    env.step(3)
    assert env.unwrapped.state.said == ["b"]  # type: ignore[attr-defined]


def test_the_experts_tokens_solve_a_constrained_game_or_end_when_left():
    class Expert(Echo):
        """Wants to stop."""

        def expert(self) -> str:
            return "stop"

    env = TokenAction(Expert(admissible=("stop", "stay")), LATIN, constrain=True)
    env.reset(seed=0)
    ended = False
    while not ended:
        token = env.expert()
        assert token is not None
        ended = env.step(token)[2]
    env.reset(seed=0)
    for token in LATIN.encode("sta", add_special_tokens=False):
        env.step(token)
    assert env.expert() is None


def test_a_tokenizer_of_transformers():
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    core = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=None))
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<end>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    core.train_from_iterator(["go to the shelf", "go to the table", "take the apple"], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<end>")
    actions = ("go to the shelf", "go to the", "nimm den Äpfel 东")
    for constrain in (False, True):
        env = TokenAction(Echo(admissible=actions), tokenizer, constrain=constrain)
        env.reset(seed=0)
        for text in actions:
            ids = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
            for token in ids:
                observation, *_, info = env.step(token)
                assert observation in env.observation_space
                if info["turn_end"]:
                    break
        assert env.unwrapped.state.said == list(actions)  # type: ignore[attr-defined]
    env.step(tokenizer.eos_token_id)
    wild = Echo()
    wild.reset(seed=0)
    TokenAction(wild, tokenizer).restore(
        {
            "wrapper": "TokenAction",
            "memory": {"action": [], "turns": [], "ready": True},
            "env": _odd(wild),
        }
    )


def _odd(env: Echo) -> dict[str, Any]:
    env.step("\ud800 lone surrogates cannot be encoded")
    return env.snapshot()


def test_the_last_observation_of_an_episode_is_cut_as_those_before():
    # Nothing is listed in it. An action of max_action_tokens would not fit.
    line = NumberLine(size=3, max_turns=4)
    env = TokenAction(line, LATIN, max_tokens=28, constrain=True, instructions=False)
    observation, _ = env.reset(seed=0)
    lengths = {int(observation["length"][0])}
    ended = False
    while not ended:
        token = int(np.flatnonzero(env.action_masks())[0])
        observation, _, terminated, truncated, info = env.step(token)
        ended = terminated or truncated
        if info["turn_end"]:
            lengths.add(int(observation["length"][0]))
    assert min(lengths) >= len("You are at 0. Go to 0.") + 3
    restored = TokenAction(line, LATIN, max_tokens=28, constrain=True, instructions=False)
    assert text_of(restored.restore(env.snapshot())[0]) == text_of(observation)


def test_a_turn_with_more_room_than_the_first_leaves_half_to_the_observation():
    context = PlainContext(LATIN, PlainFormat(END), max_tokens=23)
    conversation = context.begin("")
    conversation.observe("a" * 30)
    assert len(conversation.prompt(2)) == 21
    conversation.act([5])
    conversation.observe("b" * 30)
    assert len(conversation.prompt(40)) == 10 + 3
