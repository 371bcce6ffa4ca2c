"""`Record`: segments, weights and rewards of the calls of a foreign program."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.gateway.prompts import Prompt, Relation
from agentgym.trainers.gateway.record import Call, Record, observed
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Message, ToolCall
from agentgym.trainers.policy.sampling import Sample

TOOLS = ({"type": "function", "function": {"name": "look", "parameters": {}}},)
USER = ChatRequest((Message("user", "hello"),))


class Program:
    """Makes calls whose replies are tokens of their own: call n samples [100 + n, 200 + n]."""

    def __init__(self, info=None):
        self.record = Record(info)

    def ask(self, tokens, parent=None, relation: Relation = "root", request=USER):
        prompt = Prompt(np.array(tokens, np.int32), b"", parent, relation, False)
        return self.record.begin(request, prompt)

    def answer(self, call: Call, *calls: ToolCall):
        tokens = np.array([100 + call.number, 200 + call.number], np.int32)
        sample = Sample(tokens, np.full(2, -0.5, np.float32), None, f"reply {call.number}", True)
        self.record.end(call, sample, ChatReply(sample.text, calls=calls))
        return call

    def call(self, tokens, parent=None, request=USER, calls=()):
        relation: Relation = "root" if parent is None else "extends"
        return self.answer(self.ask(tokens, parent, relation, request), *calls)

    def trajectory(self, **options) -> Trajectory:
        found = self.record.trajectory("Mine-v0", "order 17", 3, **options)
        assert found is not None
        return found


def sampled(trajectory: Trajectory):
    """Returns the sampled tokens of each turn, read from its segment."""
    return [
        trajectory.segments[turn.segment].tokens[turn.start : turn.stop].tolist()
        for turn in trajectory.turns
    ]


def behind(call: Call, *more: int):
    """Returns a prompt that goes on behind the reply of a call."""
    assert call.sample is not None
    return [*call.prompt.tokens.tolist(), *call.sample.tokens.tolist(), *more]


def test_a_conversation_is_one_segment():
    program = Program()
    first = program.call([1, 2])
    second = program.call(behind(first, 3), parent=0)
    program.call(behind(second, 4), parent=1)
    trajectory = program.trajectory()
    [segment] = trajectory.segments
    assert segment.tokens.tolist() == [1, 2, 100, 200, 3, 101, 201, 4, 102, 202]
    assert sampled(trajectory) == [[100, 200], [101, 201], [102, 202]]
    assert trajectory.terminated and not trajectory.truncated


def test_a_fork_carries_the_common_past_as_context():
    """From an inner turn: the part before it is fed again, and trained once."""
    program = Program()
    first = program.call([1, 2])
    second = program.call(behind(first, 3), parent=0)
    program.call(behind(second, 4), parent=1)
    program.call(behind(first, 5), parent=0)
    trajectory = program.trajectory()
    assert [len(segment.tokens) for segment in trajectory.segments] == [10, 7]
    assert [turn.segment for turn in trajectory.turns] == [0, 0, 0, 1]
    assert sampled(trajectory)[-1] == [103, 203]


def test_a_summary_begins_a_segment():
    """Compaction: a summary as new first message shares no prefix."""
    program = Program()
    program.call([1, 2])
    program.call([1, 9, 9])
    trajectory = program.trajectory()
    assert [turn.segment for turn in trajectory.turns] == [0, 1]


def test_sub_agents_that_take_turns_keep_their_segments():
    program = Program()
    main, helper = program.call([1]), program.call([7])
    for _ in range(3):
        main = program.call(behind(main, 2), parent=main.number)
        helper = program.call(behind(helper, 8), parent=helper.number)
    trajectory = program.trajectory()
    assert len(trajectory.segments) == 2
    assert [turn.segment for turn in trajectory.turns] == [0, 1] * 4
    assert all(turn.weight == 1 for turn in trajectory.turns)


@st.composite
def programs(draw):
    """Programs that go on from any earlier replies, or begin anew."""
    program = Program()
    for n in range(draw(st.integers(1, 9))):
        parent = draw(st.none() | st.integers(0, n - 1)) if n else None
        more = draw(st.lists(st.integers(1, 3), max_size=2))
        start = [draw(st.integers(1, 3))] if parent is None else []
        past = [] if parent is None else behind(program.record.calls[parent])
        program.call([*past, *start, *more], parent)
    return program


@settings(deadline=None)
@given(programs())
def test_each_sampled_token_has_one_turn(program):
    trajectory = program.trajectory()
    calls = program.record.turns()
    expected = [[100 + call.number, 200 + call.number] for call in calls]
    assert sampled(trajectory) == expected
    spans = [(turn.segment, turn.start, turn.stop) for turn in trajectory.turns]
    for (a, start, stop), (b, begin, end) in itertools.combinations(spans, 2):
        assert a != b or stop <= begin or end <= start
    for call, turn in zip(calls, trajectory.turns, strict=True):
        tokens = trajectory.segments[turn.segment].tokens
        assert tokens[: turn.start].tolist() == call.prompt.tokens.tolist()


def test_a_repeated_request_replaces_the_reply_that_was_not_used():
    program = Program()
    first = program.call([1, 2])
    again = program.call([1, 2])
    program.call(behind(again, 3), parent=1)
    assert [turn.weight for turn in program.trajectory().turns] == [0, 1, 1]
    program.call(behind(first, 4), parent=0)
    assert [turn.weight for turn in program.trajectory().turns] == [1, 1, 1, 1]


def test_of_repeated_requests_at_the_end_the_last_one_counts():
    program = Program()
    for _ in range(3):
        program.call([1, 2])
    assert [turn.weight for turn in program.trajectory().turns] == [0, 0, 1]


def test_equal_requests_at_the_same_time_are_votes():
    program = Program()
    for call in [program.ask([1, 2]) for _ in range(3)]:
        program.answer(call)
    assert [turn.weight for turn in program.trajectory().turns] == [1, 1, 1]


def test_a_request_that_the_client_repeats_counts_once():
    program = Program()
    first, again = program.ask([1, 2]), program.ask([1, 2], request=replace(USER, retry=True))
    program.answer(first)
    program.answer(again)
    assert [turn.weight for turn in program.trajectory().turns] == [0, 1]


def test_a_reply_that_nobody_read_is_no_turn():
    program = Program()
    program.record.lose(program.call([1, 2]))
    program.call([1, 2])
    assert len(program.trajectory().turns) == 1


def test_a_call_for_a_title_has_no_weight():
    program = Program()
    main = program.call([1, 2], request=replace(USER, tools=TOOLS))
    program.call([7])
    program.call(behind(main, 3), parent=0, request=replace(USER, tools=TOOLS))
    assert [turn.weight for turn in program.trajectory().turns] == [1, 0, 1]
    weights = [turn.weight for turn in program.trajectory(auxiliary=True).turns]
    assert weights == [1, 1, 1]


def test_rewards_belong_to_the_replies_that_asked_for_the_step():
    program = Program({"progress": 0.0, "state_key": "start"})
    look = [ToolCall(str(n), "look", f'{{"at": {n}}}') for n in range(3)]
    first = program.call([1], calls=look[:2])
    program.call([7], calls=look[2:])
    same = ToolCall("other id", "look", '{ "at":0 }')
    for call, reward in ((same, 0.5), (look[1], 0.25), (look[2], -1.0), (None, 0.125)):
        info = {"state_key": "next", "progress": 0.5, "valid": reward > -1}
        program.record.step(reward, False, False, info, call)
    program.call(behind(first, 3), parent=0)
    program.record.step(1.0, True, False, {"success": True, "state_key": "end"}, None)
    trajectory = program.trajectory()
    assert [turn.reward for turn in trajectory.turns] == [0.75, -0.875, 1.0]
    assert [turn.valid for turn in trajectory.turns] == [True, False, True]
    assert [turn.state_key for turn in trajectory.turns] == ["start", "start", "next"]
    assert trajectory.success and trajectory.final_state_key == "end"


def test_calls_after_the_end_have_no_weight():
    program = Program({"progress": 0.0})
    first = program.call([1])
    program.record.step(1.0, True, False, {}, None)
    program.call(behind(first, 2), parent=0)
    assert [turn.weight for turn in program.trajectory().turns] == [1, 0]


def test_an_episode_without_a_turn_is_not_scored():
    program = Program()
    program.ask([1])
    assert program.record.trajectory("Mine-v0", "order 17", 3) is None


def test_a_cut_off_program_keeps_its_last_prompt():
    program = Program()
    first = program.call([1, 2])
    pending = program.ask(behind(first, 3), parent=0, relation="extends")
    trajectory = program.trajectory(cut_off=True, pending=pending.prompt.tokens)
    assert trajectory.truncated and trajectory.bootstrap == 0
    assert trajectory.segments[0].tokens.tolist() == [1, 2, 100, 200, 3]


@pytest.mark.parametrize(
    ("scores", "rewards"),
    [(0.5, [0, 0.5]), ({"task": 1, "style": -0.25}, [0, 0.75]), ([0.5, 0.25], [0.5, 0.25])],
)
def test_scores_are_rewards_of_turns(scores, rewards):
    program = Program()
    first = program.call([1])
    program.call(behind(first), parent=0)
    program.record.score(scores)
    assert [turn.reward for turn in program.trajectory().turns] == rewards


@pytest.mark.parametrize("scores", [[1.0], float("nan"), {"task": float("inf")}])
def test_scores_that_are_none_are_refused(scores):
    program = Program()
    first = program.call([1])
    program.call(behind(first), parent=0)
    with pytest.raises(ValueError, match="Expected"):
        program.record.score(scores)


def test_an_observation_is_the_text_after_the_last_reply():
    messages = [Message("system", "rules"), Message("user", "a"), Message("assistant", "b")]
    assert observed(ChatRequest((*messages[:2],))) == "a"
    assert observed(ChatRequest((*messages, Message("tool", "c"), Message("user", "d")))) == "c\nd"
