"""`Sessions`: programs that own their loop get the actions, and the trajectories, of a rollout."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from transformers.convert_slow_tokenizer import bytes_to_unicode

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.trainers.data.packing import pack
from agentgym.trainers.gateway import sessions as module
from agentgym.trainers.gateway.messages import History
from agentgym.trainers.gateway.prompts import Prompt, Prompts
from agentgym.trainers.gateway.session import Session, SessionSpec, logprobs_of, stop_of
from agentgym.trainers.gateway.sessions import SPENT, Sessions
from agentgym.trainers.gateway.wire import ChatRequest, Message, Refused
from agentgym.trainers.policy import chat_template
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sample, Sampling
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from tests.helpers.chat_models import FAMILIES, chat_model

SECONDS = 60
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS},
}


def ask(sessions: Sessions, session: Session, messages: Sequence[Message], **options):
    request = ChatRequest(tuple(messages), **options)
    return sessions.submit(session.token, request).result(SECONDS)


def play(sessions: Sessions, session: Session, task: str, seed: int, turns: int) -> None:
    """A program that plays an environment as a chat."""
    env = NumberLine(max_turns=turns)
    observation, info = env.reset(seed=seed, options={"task": task})
    session.record.info = info
    messages = [Message("system", env.instructions), Message("user", observation)]
    over = False
    while not over:
        reply = ask(sessions, session, messages)
        observation, reward, terminated, truncated, info = env.step(reply.text or "")
        sessions.step(session, reward, terminated, truncated, info)
        messages += [Message("assistant", reply.text), Message("user", observation)]
        over = terminated or truncated


def answered(sessions: Sessions, programs: Sequence[Callable[[], None]]) -> None:
    """Runs programs in threads, and answers them in this one."""
    failures: list[BaseException] = []

    def run(program: Callable[[], None]) -> None:
        try:
            program()
        except BaseException as error:
            failures.append(error)
        finally:
            sessions.wake()

    threads = [threading.Thread(target=run, args=(each,)) for each in programs]
    for thread in threads:
        thread.start()
    sessions.run(lambda: not any(thread.is_alive() for thread in threads))
    for thread in threads:
        thread.join(SECONDS)
    if failures:
        raise failures[0]


@contextmanager
def answering(sessions: Sessions) -> Iterator[None]:
    """Answers in a thread."""
    over = threading.Event()
    thread = threading.Thread(target=sessions.run, args=(over.is_set,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        sessions.wake()
        thread.join(SECONDS)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(max_new_tokens=6),
        Sampling(max_new_tokens=6, top_k=9, top_p=0.9, stop=("e",)),
        Sampling(max_new_tokens=6, temperature=0),
    ],
    ids=["plain", "restricted", "greedy"],
)
@pytest.mark.parametrize("count", [1, 4])
def test_a_program_gives_the_trajectories_of_a_rollout(family: str, sampling: Sampling, count):
    """Bit by bit: tokens, log-probs, support, segments and rewards, for programs in lockstep."""
    policy = Policy(*chat_model(family))
    specs = [EpisodeSpec(f"train/{n}", n, (7, 0, n), bootstraps=False) for n in range(count)]
    context = make_context(policy, ContextSettings())
    with EnvPool(lambda: NumberLine(max_turns=3), num_envs=count) as pool:
        expected = collect(policy, pool, specs, context, sampling)
    sessions = Sessions(policy, sampling, batching="lockstep" if count > 1 else "single")
    opened = [sessions.open(SessionSpec(spec.key)) for spec in specs]

    def program(session: Session, spec: EpisodeSpec) -> Callable[[], None]:
        def run() -> None:
            try:
                play(sessions, session, spec.task, spec.seed, 3)
            finally:
                sessions.close(session)

        return run

    answered(sessions, [program(*each) for each in zip(opened, specs, strict=True)])
    for spec, session, whole in zip(specs, opened, expected, strict=True):
        found = session.record.trajectory(
            whole.env_id, spec.task, spec.seed, instructions=whole.instructions
        )
        assert found is not None
        found.final_observation = whole.final_observation
        found.stats.env_turns = whole.stats.env_turns  # as the executor does
        assert [turn.action for turn in found.turns] == [turn.action for turn in whole.turns]
        assert found.segments[0].tokens.tolist() == whole.segments[0].tokens.tolist()
        for name, value in pack(found).items():
            np.testing.assert_array_equal(value, pack(whole)[name], err_msg=name)


@pytest.fixture
def policy() -> Policy:
    return Policy(*chat_model("base"))


def hello(text: str = "hello") -> list[Message]:
    return [Message("user", text)]


def conversation(sessions: Sessions, session: Session, name: str, replies: dict[str, str]) -> None:
    """A sub-agent with a conversation of its own."""
    messages = [Message("system", name), *hello()]
    for _ in range(3):
        reply = ask(sessions, session, messages)
        messages += [Message("assistant", reply.text), *hello("go on")]
    replies[name] = "|".join(message.text or "" for message in messages)


def test_samples_depend_on_their_prompts_and_not_on_when_they_arrive(policy: Policy):
    """Parallel sub-agents: each time the same replies, in any order and number at once."""
    found = []
    for trial in range(20):
        sessions = Sessions(policy, Sampling(max_new_tokens=6))
        session, replies = sessions.open(SessionSpec((1, 2))), dict[str, str]()
        names = [f"helper {n}" for n in np.random.default_rng(trial).permutation(4)]
        with answering(sessions):
            ask(sessions, session, hello("main"))
            threads = [
                threading.Thread(target=conversation, args=(sessions, session, name, replies))
                for name in names
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(SECONDS)
        trajectory = session.record.trajectory("Mine-v0", "task", 0)
        assert trajectory is not None
        assert len(trajectory.turns) == 13 and len(trajectory.segments) == 5
        assert all(turn.weight == 1 for turn in trajectory.turns)
        found.append(sorted(replies.items()))
    assert all(each == found[0] for each in found) and len(found[0]) == 4


def test_a_repeated_request_gets_another_reply(policy: Policy):
    sessions = Sessions(policy, Sampling(max_new_tokens=6))
    session = sessions.open(SessionSpec((1,)))
    with answering(sessions):
        texts = {ask(sessions, session, hello()).text for _ in range(5)}
    assert len(texts) > 1


def test_limits_and_stop_strings_of_a_request_hold(policy: Policy):
    sessions = Sessions(policy, Sampling(max_new_tokens=6))
    session = sessions.open(SessionSpec((1,)))
    with answering(sessions):
        whole = ask(sessions, session, hello())
        other = sessions.open(SessionSpec((1,)))
        short = ask(sessions, other, hello(), max_tokens=2, logprobs=True)
    assert not short.stop
    assert short.completion_tokens == 2 and short.finish == "length"
    assert whole.text is not None and whole.text.startswith(short.text or "")
    assert "".join(token.token for token in short.logprobs) == short.text


def test_a_reply_names_the_stop_string_that_ended_it(policy: Policy):
    """Texts before it, and samples that an end token or the limit ended, name none."""
    for text, rest, finished, stop in (
        ("go", "Obs: x", True, "Obs:"),
        ("", "Obs:", True, "Obs:"),
        ("go", "\n", True, ""),
        ("goOb", "", False, ""),
    ):
        ids = policy.tokenizer(text + rest, add_special_tokens=False)["input_ids"]
        sample = Sample(np.array(ids), np.zeros(len(ids), np.float32), None, text, finished)
        assert stop_of(sample, ("end", "Obs:"), policy.decode) == stop
    assert stop_of(sample, (), policy.decode) == ""


def test_the_bytes_of_tokens_are_those_of_the_text(policy: Policy):
    """Also where a character is written by several tokens, or never ends."""
    for text in ("a\u20acb\U0001f600", "\u20ac", "plain"):
        data = text.encode()
        tokens = [policy.tokenizer.convert_tokens_to_ids(each) for each in as_bytes(data)]
        assert None not in tokens
        for stop in (len(tokens), len(tokens) - 1):
            sample = Sample(np.array(tokens[:stop]), np.zeros(stop, np.float32), None, "", True)
            found = logprobs_of(sample, policy.decode)
            expected = data[:stop].decode("utf-8", "replace")
            assert b"".join(token.data for token in found).decode() == expected
            assert "".join(token.token for token in found) == expected
            assert len(found) == stop


def as_bytes(data: bytes) -> list[str]:
    """Returns the names of the tokens of single bytes, as byte-level tokenizers write them."""
    return [bytes_to_unicode()[each] for each in data]


def test_a_prompt_that_is_too_long_is_refused(policy: Policy):
    sessions = Sessions(policy, Sampling(max_new_tokens=6))
    session = sessions.open(SessionSpec((1,)))
    with answering(sessions):
        with pytest.raises(Refused, match="maximum context length is 512 tokens") as refused:
            ask(sessions, session, hello("far too long " * 400))
        assert refused.value.code == "context_length_exceeded" and not refused.value.retry
        assert ask(sessions, session, hello()).text is not None
        fits = sessions.count(session.token, ChatRequest(tuple(hello()))).result(SECONDS)
    assert fits == len(session.record.calls[-1].prompt.tokens)
    assert len(session.record.turns()) == 1


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("tools", [(), (TOOL,)])
def test_messages_that_a_template_renders_without_end_are_refused(
    threaded: bool, tools: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
):
    """The template is quick with those of others, so the run goes on, whichever thread answers."""
    model, tokenizer = chat_model("qwen3")
    policy = Policy(model, copy.deepcopy(tokenizer))
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    template = policy.tokenizer.chat_template
    text = "{% if 'loop' in messages[0].content or 'loop' in messages[-1].content %}"
    policy.tokenizer.chat_template = f"{text}{loops}{{% endif %}}{template}"
    monkeypatch.setattr(chat_template, "TEMPLATE_SECONDS", 1.5)  # others take ms
    sessions = Sessions(policy, Sampling(max_new_tokens=6))
    session = sessions.open(SessionSpec((1,)))

    def program() -> None:
        first = hello("go")
        slow = [*hello("loop")] if tools else [Message("system", "loop"), *hello("go")]
        for _ in range(2):
            with pytest.raises(Refused, match="takes too long to render") as refused:
                ask(sessions, session, slow, tools=tools)
            assert refused.value.code == "template_too_slow" and not refused.value.retry
            assert ask(sessions, session, first, tools=tools).completion_tokens

    if threaded:
        with answering(sessions):
            program()
    else:
        answered(sessions, [program])


def test_a_request_on_which_the_trainer_fails_ends_no_run(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
):
    sessions = Sessions(policy, Sampling(max_new_tokens=6))
    session = sessions.open(SessionSpec((1,)))
    build = Prompts.prompt

    def prompt(self: Prompts, request: ChatRequest, history: History) -> Prompt:
        if request.messages[0].text == "odd":
            raise TypeError("odd")
        return build(self, request, history)

    monkeypatch.setattr(Prompts, "prompt", prompt)
    with answering(sessions):
        for begin in (sessions.submit, sessions.count):
            with pytest.raises(TypeError, match="odd"):
                begin(session.token, ChatRequest(tuple(hello("odd")))).result(SECONDS)
        assert ask(sessions, session, hello()).text is not None
    assert len(session.record.turns()) == 1 and not session.waiting


def test_a_session_that_has_ended_answers_nobody(policy: Policy):
    sessions = Sessions(policy, Sampling(max_new_tokens=400))
    session = sessions.open(SessionSpec((1,)))
    future = sessions.submit(session.token, ChatRequest(tuple(hello())))
    sessions.close(session)
    with pytest.raises(Refused, match="has ended"):
        future.result(SECONDS)
    assert not sessions.knows(session.token) and not sessions.knows("\udc80")
    for method in (sessions.submit, sessions.count):
        with pytest.raises(Refused, match="has ended"):
            method(session.token, ChatRequest(tuple(hello())))


def test_requests_beyond_the_budget_are_answered_and_not_recorded(policy: Policy):
    sessions = Sessions(policy, Sampling(max_new_tokens=2))
    session = sessions.open(SessionSpec((1,), calls=2))
    with answering(sessions):
        texts = [ask(sessions, session, hello(str(n))).text for n in range(4)]
    assert texts[2:] == [SPENT, SPENT]
    assert len(session.record.calls) == 2


@pytest.mark.parametrize("before", [True, False])
def test_a_reply_that_nobody_read_is_no_turn(policy: Policy, before: bool):
    sessions = Sessions(policy, Sampling(max_new_tokens=8))
    session = sessions.open(SessionSpec((1,)))
    request = ChatRequest(tuple(hello("first")))
    with answering(sessions):
        if before:
            sessions.cancel(sessions.submit(session.token, request))
        else:
            future = sessions.submit(session.token, request)
            future.result(SECONDS)
            sessions.cancel(future)
        ask(sessions, session, hello("second"))
    assert len(session.record.turns()) == 1


def test_replies_can_be_restricted_to_the_admissible_actions(policy: Policy):
    sessions = Sessions(policy, Sampling(max_new_tokens=8))
    session = sessions.open(SessionSpec((1,), constrain=True), {"admissible": ("left", "right")})
    with answering(sessions):
        assert ask(sessions, session, hello()).text in ("left", "right")
    [turn] = session.record.turns()
    assert turn.sample is not None and turn.sample.support is not None


def test_a_silent_program_does_not_stop_the_others(policy: Policy, monkeypatch):
    monkeypatch.setattr(module, "LOCKSTEP", 0.2)
    sessions = Sessions(policy, Sampling(max_new_tokens=2), batching="lockstep")
    session, _silent = sessions.open(SessionSpec((1,))), sessions.open(SessionSpec((2,)))
    replies: dict[str, str] = {}

    def program() -> None:
        conversation(sessions, session, "alone", replies)

    with pytest.warns(UserWarning, match="has asked for nothing"):
        answered(sessions, [program])
    assert len(replies) == 1


def test_an_unknown_batching_is_refused(policy: Policy):
    with pytest.raises(ConfigError, match="batching must be one of continuous, lockstep, single"):
        Sessions(policy, Sampling(), batching="some")  # type: ignore[arg-type]
