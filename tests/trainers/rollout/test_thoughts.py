"""Thought and action tokens: the mask fits the text, and a loss can leave the thoughts out."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.convert_slow_tokenizer import bytes_to_unicode

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.credit.thoughts import share_turn_credit
from agentgym.trainers.credit.two_clock import poad
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.packing import pack, unpack
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.answers import answer
from agentgym.trainers.policy.action_format import ActionFormat
from agentgym.trainers.policy.ensemble import Sessions
from agentgym.trainers.policy.sampling import Sample, Sampling
from agentgym.trainers.policy.tiny import tiny_tokenizer
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import Context, ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.thoughts import thought_mask
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.update import losses
from agentgym.wrappers import ExtractAction, HistoryObservation

from ...helpers.worlds import generators, random_batch, values

TEXTS = ["so I go north <action>go north</action> because é東🙂 <action>go é</action>"] * 3
TOKENIZER = tiny_tokenizer(TEXTS, 320)
END = TOKENIZER.eos_token_id
pieces = st.text("go <acé東🙂\n.", max_size=12)


def decode(tokens: Any) -> str:
    return TOKENIZER.decode(
        list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
    )


def token_bytes() -> dict[int, bytes]:
    """The bytes of each token of a byte-level tokenizer."""
    byte_of = {character: byte for byte, character in bytes_to_unicode().items()}
    return {
        number: bytes(byte_of[character] for character in word)
        for word, number in TOKENIZER.get_vocab().items()
        if all(character in byte_of for character in word) and number != END
    }


BYTES = token_bytes()


def sample(tokens: list[int], finished: bool) -> Sample:
    ids = np.array([*tokens, END] if finished else tokens, np.int32)
    return Sample(ids, np.zeros(len(ids), np.float32), None, decode(ids), finished)


def split(text: str, data: Any) -> list[int]:
    """Any tokens with these bytes, not only those that the tokenizer would choose."""
    rest, tokens = text.encode(), []
    while rest:
        fitting = sorted(n for n, word in BYTES.items() if word and rest.startswith(word))
        token = data.draw(st.sampled_from(fitting))
        tokens.append(token)
        rest = rest[len(BYTES[token]) :]
    return tokens


@settings(max_examples=60)
@given(before=pieces, action=pieces.filter(str.strip), after=pieces, data=st.data())
def test_an_action_token_shares_a_byte_with_the_action(
    before: str, action: str, after: str, data: Any
):
    finished = data.draw(st.booleans())
    text = before + action + after
    span = (len(before), len(before) + len(action))
    tokens = split(text, data)
    found = thought_mask(sample(tokens, finished), decode, lambda _: span)
    start, stop = len(before.encode()), len((before + action).encode())
    ends = np.cumsum([len(BYTES[token]) for token in tokens])
    begins = np.append(0, ends[:-1])
    expected = ~((ends > start) & (begins < stop))
    expected = np.append(expected, False) if finished else expected
    assert np.array_equal(np.zeros(len(expected), bool) if found is None else found, expected)


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("I go. <action>go</action> yes", "<action>go</action>"),
        ("<think>é東</think>東<action>go é</action>🙂", "<action>go é</action>"),
        ("<action>go", "<action>go"),
    ],
)
def test_the_tokens_of_the_marks_belong_to_the_action(reply: str, action: str):
    env = ExtractAction(NumberLine(), "tags")
    tokens = [t for byte in reply.encode() for t, word in BYTES.items() if word == bytes([byte])]
    mask = thought_mask(sample(tokens, True), decode, env.action_span)
    mask = np.zeros(len(tokens) + 1, bool) if mask is None else mask
    kept = [token for token, thought in zip(tokens, mask[:-1], strict=True) if not thought]
    assert decode(kept) == action
    assert not mask[-1]


@pytest.mark.parametrize("reply", ["", "go", "<think><action>go</action>", "<action></action>"])
def test_a_reply_without_an_action_has_no_thoughts(reply: str):
    env = ExtractAction(NumberLine(), "tags")
    tokens = TOKENIZER(reply)["input_ids"]
    assert thought_mask(sample(tokens, True), decode, env.action_span) is None


# In rollouts.


class Thinker:
    """Replies with a thought and an action, or with a thought that is cut off."""

    replies = ("I think é <action>+</action>.", "<action>-</action>", "I think <think> and")
    pad_token, end_token = TOKENIZER.pad_token_id, END
    decode = staticmethod(decode)

    def encode(self, text: str) -> list[int]:
        return TOKENIZER(text)["input_ids"]

    def session(self, **_: bool) -> Sessions:
        return Sessions({})

    def act(self, requests: Any, sampling: Any, cache: Any) -> list[Sample]:
        texts = [self.replies[int(request.rng.integers(3))] for request in requests]
        return [sample(self.encode(text), "think>" not in text) for text in texts]


def thinking(wrapped: bool = True) -> list[Trajectory]:
    def make() -> Any:
        env = NumberLine(size=5, max_turns=6, invalid_penalty=0.1)
        return HistoryObservation(ExtractAction(env, "tags"), 1) if wrapped else env

    sampling = Sampling(max_new_tokens=24)
    context = Context(ContextSettings(), TOKENIZER, ActionFormat(END, frozenset([END])))
    with EnvPool(make, 3) as pool:
        task = make().get_wrapper_attr("tasks").train[0]
        specs = [EpisodeSpec(task, i, (0, i)) for i in range(6)]
        return collect(Thinker(), pool, specs, context, sampling)  # type: ignore[arg-type]


def test_turns_hold_the_mask_and_a_reply_that_is_cut_off_is_invalid():
    trajectories = thinking()
    batch = Batch.of(trajectories)
    for trajectory in trajectories:
        for turn in trajectory.turns:
            tokens = trajectory.segments[turn.segment].tokens[turn.start : turn.stop]
            thought = np.zeros(len(tokens), bool) if turn.thought is None else turn.thought
            kept = decode(tokens[~thought])
            assert turn.valid == ("<action>" in turn.action)
            found = re.search("<action>.*</action>", turn.action)
            assert (found[0] if found else turn.action) in kept
            assert ("I think" in kept) == (not turn.valid)
    assert batch.thought.any() and not batch.thought.all()
    again = Batch.of([unpack(pack(trajectory)) for trajectory in trajectories])
    assert np.array_equal(again.thought, batch.thought)


def test_without_the_wrapper_there_are_no_thoughts():
    trajectories = thinking(wrapped=False)
    assert all(turn.thought is None for trajectory in trajectories for turn in trajectory.turns)


def test_an_older_checkpoint_has_no_thoughts():
    packed = pack(thinking(wrapped=False)[0])
    for turn in packed["turns"]:
        del turn["thought"]
    assert not Batch.of([unpack(packed)]).thought.any()


# In losses and credit.


def with_thoughts(batch: Batch, rng: np.random.Generator) -> Batch:
    """Random thoughts, inserted before the tokens of each turn; they have a log-prob of -9."""
    trajectories = []
    for trajectory in batch.trajectories:
        turns = []
        for turn in trajectory.turns:
            extra = int(rng.integers(0, 4))
            old = turn.stop - turn.start
            turns.append(
                replace(
                    turn,
                    stop=turn.stop + extra,
                    logprobs=np.append(np.full(extra, -9, np.float32), turn.logprobs),
                    thought=np.arange(extra + old) < extra,
                )
            )
        trajectories.append(replace(trajectory, turns=turns))
    return Batch.of(trajectories)


def policy_loss(batch: Batch, advantages: Any, ratio: str, aggregation: Any, coef: float) -> Any:
    """The loss of new log-probs, which depend on the position among the action tokens only."""
    importance = torch.from_numpy(batch.weights(coef))
    free = importance > 0
    turn = torch.from_numpy(batch.token_turn)[free]
    trajectory = torch.from_numpy(batch.turn_trajectory[batch.token_turn])[free]
    weights = losses.aggregation_weights(
        aggregation, turn, trajectory, length=8, importance=importance[free]
    )
    kept = ~batch.thought
    new = np.full(batch.num_tokens, -3.0)
    new[kept] = batch.logprobs[kept] + 0.5 * np.sin(np.arange(kept.sum()))
    logprobs = torch.tensor(new, dtype=torch.float64, requires_grad=True)
    surrogate = losses.clipped_surrogate(
        logprobs[free],
        torch.from_numpy(batch.logprobs)[free],
        torch.from_numpy(np.asarray(advantages))[free],
        span={"token": None, "turn": turn, "trajectory": trajectory}[ratio],
        weights=weights,
    )
    surrogate.loss.mean().backward()
    assert logprobs.grad is not None
    return surrogate.loss.mean().item(), logprobs.grad[torch.from_numpy(kept)].numpy()


@settings(deadline=None)
@given(
    generators,
    st.sampled_from(["token", "turn", "trajectory"]),
    st.sampled_from(["token", "turn", "trajectory", "constant"]),
    st.sampled_from(["batch", "task", "group"]),
)
def test_thoughts_of_weight_0_do_not_change_the_loss_of_actions(
    rng: np.random.Generator, ratio: str, aggregation: str, per: Any
):
    batch = random_batch(rng, min_tokens=1)
    thinking = with_thoughts(batch, rng)
    assert thinking.thought.any() or thinking.num_tokens == batch.num_tokens
    advantages = rng.normal(size=batch.num_tokens).astype(np.float32)
    more = np.full(thinking.num_tokens, 7.0, np.float32)
    more[~thinking.thought] = advantages
    found = []
    for each, own in ((batch, advantages), (thinking, more)):
        credit = poad()(each, values(each, np.random.default_rng(0)))
        credit = replace(credit, advantages=own)
        credit = normalize_advantages(credit, each, per, thought_coef=0.0)
        found.append(policy_loss(each, credit.advantages, ratio, aggregation, 0.0))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5, abs=1e-7)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-7)


@given(generators, st.sampled_from(["token", "turn", "trajectory", "constant"]))
def test_the_weight_1_is_the_loss_without_a_distinction(rng: np.random.Generator, how: Any):
    batch = with_thoughts(random_batch(rng, min_tokens=1), rng)
    turn = torch.from_numpy(batch.token_turn)
    trajectory = torch.from_numpy(batch.turn_trajectory[batch.token_turn])
    plain = losses.aggregation_weights(how, turn, trajectory, length=8)
    importance = torch.from_numpy(batch.weights(1.0))
    same = losses.aggregation_weights(how, turn, trajectory, length=8, importance=importance)
    assert torch.equal(plain.weight, same.weight) and torch.equal(plain.share, same.share)
    half = torch.from_numpy(batch.weights(0.5))
    less = losses.aggregation_weights(how, turn, trajectory, length=8, importance=half)
    ratio = (less.weight / plain.weight).numpy()
    for t in range(batch.num_turns):
        inside, thought = batch.token_turn == t, batch.thought
        if (inside & thought).any() and (inside & ~thought).any():
            assert ratio[inside & thought][0] == pytest.approx(ratio[inside & ~thought][0] / 2)


@given(generators)
def test_the_credit_of_a_thought_can_be_that_of_its_turn(rng: np.random.Generator):
    batch = with_thoughts(random_batch(rng, min_tokens=1), rng)
    credit = poad()(batch, values(batch, rng))
    shared = share_turn_credit(credit, batch)
    assert shared.targets is credit.targets
    kept = ~batch.thought
    assert np.array_equal(shared.advantages[kept], credit.advantages[kept])
    first = credit.advantages[batch.token_offsets[:-1]]
    thought = batch.thought
    assert np.array_equal(shared.advantages[thought], first[batch.token_turn][thought])
    plain = Batch.of([replace(t, turns=[replace(x, thought=None) for x in t.turns])
                      for t in batch.trajectories])  # fmt: skip
    assert np.array_equal(share_turn_credit(credit, plain).advantages, credit.advantages)


def test_fresh_actions_for_old_prompts_have_thoughts_too():
    tokens = TOKENIZER.encode("so I go north <action>go north</action>")
    reply = sample(tokens, True)
    trainer: Any = SimpleNamespace(
        config=TrainConfig(),
        act=lambda requests: [reply for _ in requests],
        policy=SimpleNamespace(decode=decode),
        pool=SimpleNamespace(env=lambda slot: ExtractAction(NumberLine(), "tags")),
    )
    prompt = np.array(TOKENIZER.encode("go"), np.int32)
    [found] = answer(trainer, [(prompt, ())], np.random.default_rng(0))
    mask = thought_mask(reply, decode, ExtractAction(NumberLine(), "tags").action_span)
    assert mask is not None and mask.any() and not mask.all()
    thought = found.turns[0].thought
    assert thought is not None and np.array_equal(thought, mask)
