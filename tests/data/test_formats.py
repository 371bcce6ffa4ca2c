"""Episodes as files: every format reads back, and damaged files are refused in words."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.data.episode import RecordedEpisode, RecordedTurn, judged_episodes
from agentgym.data.reading import check_episodes, read_episodes
from agentgym.data.writing import WRITERS, preference_rows
from agentgym.errors import DataError
from agentgym.registration.making import make_env

CHAT = '{"messages": [{"role": "assistant", "content": "x"}], %s}'
TURN = '{"turns": [{"observation": "", "action": "", %s}]}'
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
turns = st.builds(
    RecordedTurn,
    observation=texts.filter(bool),
    action=texts,
    reward=st.floats(-2, 2),
    reward_terms=st.just({}),
    valid=st.booleans(),
    weight=st.sampled_from([0.0, 1.0]),
)
episodes = st.builds(
    RecordedEpisode,
    turns=st.lists(turns, min_size=1, max_size=4),
    instructions=texts,
    env=st.just("AgentGym/NumberLine-v0"),
    agent=st.just("expert"),
    task=texts,
    seed=st.integers(0, 9),
    seat=st.sampled_from(["", "player_1"]),
    success=st.booleans(),
    terminated=st.booleans(),
    last_observation=texts,
    rewarded=st.just(True),
    unjudged=st.booleans(),
)


def written(tmp_path_factory, rows) -> str:
    file = tmp_path_factory.mktemp("data") / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("format", ["chat", "sharegpt", "own"])
def test_a_format_reads_back_as_it_was_written(format, tmp_path_factory):
    @given(st.lists(episodes, min_size=1, max_size=3))
    def check(some):
        assert read_episodes([written(tmp_path_factory, WRITERS[format](some))]) == some

    check()


def test_an_unreadable_verdict_of_an_evaluation_is_known(tmp_path_factory):
    turn = {"observation": "o", "action": "a", "reward": 0.0}
    rows = [{"transcript": [turn], "failure": kind} for kind in ("unjudged", "wrong", "")]
    some = read_episodes([written(tmp_path_factory, rows)])
    assert [each.unjudged for each in some] == [True, False, False]
    with pytest.warns(RuntimeWarning, match=r"1 of 3 episodes are left out: the verdict"):
        assert judged_episodes(some) == some[1:]
    with pytest.raises(DataError, match="on each of 1 is unreadable"):
        judged_episodes(some[:1])


@pytest.mark.parametrize("format", ["chat", "sharegpt", "own"])
def test_unknown_rewards_stay_unknown(format, tmp_path_factory):
    """As zeros, they would be failures for recipes that learn from rewards."""
    chat = {"messages": [{"role": "user", "content": "o"}, {"role": "assistant", "content": "a"}]}
    chat |= {"env": None, "task": None, "seed": None, "success": None}
    [episode] = read_episodes(written(tmp_path_factory, [chat]))
    assert episode == RecordedEpisode([RecordedTurn("o", "a")])
    [again] = read_episodes(written(tmp_path_factory, WRITERS[format]([episode])))
    assert again == episode and not again.rewarded


@pytest.mark.parametrize("format", ["chat", "sharegpt", "own"])
def test_invalid_actions_are_known_without_rewards(format, tmp_path_factory):
    """They are left out of the loss of behaviour cloning."""
    turns = [RecordedTurn("o", "wrong", valid=False), RecordedTurn("o", "right")]
    rows = list(WRITERS[format]([RecordedEpisode(turns, "rules")]))
    [again] = read_episodes(written(tmp_path_factory, rows))
    assert [turn.valid for turn in again.turns] == [False, True] and not again.rewarded


@pytest.mark.parametrize("format", ["chat", "sharegpt", "own"])
def test_weights_are_kept(format, tmp_path_factory):
    turns = [RecordedTurn("o", "a", weight=weight) for weight in (0.0, 0.5, 1.0)]
    rows = list(WRITERS[format]([RecordedEpisode(turns, "rules")]))
    [again] = read_episodes(written(tmp_path_factory, rows))
    assert [turn.weight for turn in again.turns] == [0, 0.5, 1]


def test_own_files_keep_the_arguments_of_the_environment(tmp_path_factory):
    episode = RecordedEpisode([RecordedTurn("a", "b")], "rules", rewarded=True)
    episode.env_kwargs = {"size": 8, "wrap": ["Memory:size=2"]}
    assert read_episodes([written(tmp_path_factory, WRITERS["own"]([episode]))]) == [episode]


def test_agent_instruct_and_openai_masks_are_read(tmp_path_factory):
    instruct = {
        "id": "os_0",
        "conversations": [
            {"from": "human", "loss": None, "value": "You are an assistant."},
            {"from": "gpt", "loss": False, "value": "OK."},
            {"from": "human", "loss": None, "value": "How many files?"},
            {"from": "gpt", "loss": True, "value": "Act: bash"},
        ],
    }
    chat = {
        "messages": [
            {"role": "system", "content": "Play."},
            {"role": "user", "content": [{"type": "text", "text": "room"}]},
            {"role": "assistant", "content": "north", "weight": 0},
            {"role": "tool", "content": "wall"},
            {"role": "assistant", "content": "south", "weight": None},
            {"role": "user", "content": "out"},
        ]
    }
    file = written(tmp_path_factory, [instruct, chat, {"text": "Once upon a time."}])
    first, second, plain = read_episodes([file])
    assert [(t.observation, t.action, t.weight) for t in first.turns] == [
        ("You are an assistant.", "OK.", 0.0),
        ("How many files?", "Act: bash", 1.0),
    ]
    assert second.instructions == "Play." and second.last_observation == "out"
    assert [(t.observation, t.weight) for t in second.turns] == [("room", 0.0), ("wall", 1.0)]
    assert not second.rewarded and plain.turns[0].action == "Once upon a time."


def replies(tmp_path_factory, *rows) -> list[list[tuple[str, str, float]]]:
    found = read_episodes([written(tmp_path_factory, rows)])
    return [[(t.observation, t.action, t.weight) for t in episode.turns] for episode in found]


@pytest.mark.parametrize("key", ["weight", "loss", "train"])
@pytest.mark.parametrize(
    ("value", "weight"),
    [
        *((False, 0), (0, 0), (0.0, 0), ("false", 0), ("False", 0), ("0", 0), (None, 1)),
        *((True, 1), (1, 1), ("true", 1), ("1.0", 1), (0.5, 0.5)),
    ],
)
def test_a_mask_may_be_written_in_every_way(key, value, weight, tmp_path_factory):
    chat = {"messages": [{"role": "assistant", "content": "x", key: value}]}
    share = {"conversations": [{"from": "gpt", "value": "x", key: value}]}
    assert replies(tmp_path_factory, chat, share) == [[("", "x", weight)]] * 2


@pytest.mark.parametrize("value", ["no", "", -1, [], float("inf")])
def test_a_mask_that_cannot_be_read_is_an_error(value, tmp_path_factory):
    share = {"conversations": [{"from": "gpt", "value": "x", "loss": value}]}
    with pytest.raises(DataError, match="expected a finite loss"):
        replies(tmp_path_factory, share)


@pytest.mark.parametrize("content", [{"content": ""}, {"content": None}, {}, {"value": ""}])
def test_calls_of_tools_are_read_as_json(content, tmp_path_factory):
    call = {"name": "look", "arguments": '{"at": "the é"}'}
    wrapped = {"tool_calls": [{"id": "1", "type": "function", "function": call}]}
    bare = {"function_call": {**call, "arguments": {"at": "the é"}}}
    text = '{"name": "look", "arguments": {"at": "the é"}}'
    for form in (wrapped, bare):
        row = {"messages": [{"role": "assistant", **content, **form}]}
        assert replies(tmp_path_factory, row) == [[("", text, 1)]]
    row = {"messages": [{"role": "assistant", "content": "I look.", **bare}]}
    assert replies(tmp_path_factory, row) == [[("", f"I look.\n{text}", 1)]]


def test_role_and_content_and_from_and_value_may_be_mixed_up(tmp_path_factory):
    one = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    other = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
    rows = [{key: rows} for key in ("messages", "conversations") for rows in (one, other)]
    assert replies(tmp_path_factory, *rows) == [[("a", "b", 1)]] * 4


def test_prompts_with_completions_and_instructions_with_outputs_are_read(tmp_path_factory):
    reply = {"role": "assistant", "content": "c"}
    asked = [{"role": "user", "content": "a"}, {**reply, "content": "b"}]
    rows = [
        {"prompt": "a", "completion": "b"},
        {"prompt": [*asked, {"role": "user", "content": "a"}], "completion": [reply]},
        {"instruction": "Sort.", "input": "b a", "output": "a b", "text": "all of it"},
        {"instruction": "Go on.", "input": "", "output": "c", "history": [["a", "b"]]},
    ]
    assert replies(tmp_path_factory, *rows) == [
        [("a", "b", 1)],
        [("a", "b", 0), ("a", "c", 1)],
        [("Sort.\n\nb a", "a b", 1)],
        [("a", "b", 1), ("Go on.", "c", 1)],
    ]


def test_a_system_prompt_and_tools_beside_the_messages_are_read(tmp_path_factory):
    tool = {"type": "function", "function": {"name": "look"}}
    rows: list[dict[str, object]] = [
        {"messages": [{"role": "assistant", "content": "x"}], "tools": [tool]},
        {"conversations": [{"from": "gpt", "value": "x"}], "tools": json.dumps([tool])},
    ]
    for row in rows:
        [episode] = read_episodes([written(tmp_path_factory, [{**row, "system": "Play."}])])
        assert episode.instructions is not None and episode.instructions.startswith(
            "Play.\n\nTools:"
        )
        assert '{"name": "look"}' in (episode.instructions or "")


def test_a_json_list_is_read_as_lines_are(tmp_path):
    row = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    (tmp_path / "list.json").write_text(json.dumps([row, row]))
    assert len(read_episodes([tmp_path / "list.json"])) == 2
    (tmp_path / "rows.jsonl").write_text(
        f"\n{json.dumps(row)}\n[1]"
    )  # a list, but not at the start
    for read in (check_episodes, read_episodes):
        with pytest.raises(DataError, match="line 3: not an episode"):
            read(tmp_path / "rows.jsonl")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no episodes"),
        ("{", "line 1: not JSON"),
        ('{"messages": [{"role": "assistant", "content": "x"}]}\n{"mess', "line 2: not JSON"),
        ("3", "line 1"),
        ('{"prompt": "a"}', "expected one of the keys"),
        ('{"messages": []}', "no reply"),
        ('{"messages": [{"role": "alien", "content": "x"}]}', "unknown role 'alien'"),
        ('{"messages": [{"role": "assistant", "tool_calls": [1]}]}', "tool_calls"),
        (CHAT % '"rewards": []', "a reward and a `valid` for each of 1 replies, got 0 and 1"),
        (CHAT % '"rewards": [1, 2]', "got 2 and 1"),
        (CHAT % '"rewards": [1], "valid": []', "got 1 and 0"),
        (CHAT % '"rewards": [NaN]', "finite"),
        (CHAT % f'"rewards": [{10**400}]', "too large"),
        (CHAT % '"seed": Infinity', "infinity"),
        ('{"turns": [{"observation": "", "action": "", "weight": NaN}]}', "finite"),
        ('{"turns": [{"observation": null, "action": ""}]}', "expected a text, got None"),
        ('{"conversations": [{"from": "gpt", "value": null}]}', "expected a text, got None"),
        ('{"messages": [{"role": "assistant", "content": null}]}', "expected a text, got None"),
        ('{"text": ["x"]}', "expected a text, got"),
        ('{"messages": [{"role": "assistant", "function_call": {"name": "f"}}]}', "arguments"),
        (
            '{"messages": [{"role": "assistant", "content": "", "tool_calls": [%s, %s]}]}'
            % (('{"name": "f", "arguments": {}}',) * 2),
            "one call per reply, got 2",
        ),
        ('{"messages": [{"role": "assistant", "content": "", "calls": ["f"]}]}', "key 'calls'"),
        ('{"messages": [{"role": "assistant", "content": "", "refusal": "No"}]}', "key 'refusal'"),
        ('{"messages": [{"role": "gpt", "content": "x", "thinking": "y"}]}', "thinking is not"),
        ('{"messages": [{"role": "gpt", "content": [{"type": "image_url"}]}]}', "'image_url'"),
        ('{"messages": [{"role": "gpt", "text": "x"}]}', "`role` and `content`, or with `from`"),
        ('{"conversations": [{"human": "x", "assistant": "y"}]}', "human, assistant"),
        ('{"conversations": {"role": ["gpt"]}}', "expected a list of messages"),
        (
            '{"prompt": "a", "chosen": "b", "rejected": "c"}',
            "pairs of chosen and rejected replies are no episodes: export as chat",
        ),
        ('{"completion": "a"}', "prompt"),
        ('{"instruction": "a", "response": "b"}', "output"),
        ('{"question": "a", "answer": "b"}', "got question, answer"),
        (CHAT % '"success": "false"', "expected true or false, got 'false'"),
        (CHAT % '"rewards": [1], "valid": ["no"]', "expected true or false, got 'no'"),
        (CHAT % '"rewards": "1"', "expected a list of rewards, got '1'"),
        (CHAT % '"valid": []', "got 1 and 0"),
        (CHAT % '"seed": -1', "expected a seed of at least 0, got -1"),
        (CHAT % '"seed": 1.5', "expected a seed of at least 0, got 1.5"),
        (CHAT % '"task": ["a"]', r"expected a name, got \['a'\]"),
        (TURN % '"weight": -2', "of at least 0, got -2.0"),
        (TURN % '"admissible": "ab"', "expected a list of texts, got 'ab'"),
        (TURN % '"admissible": [1]', "expected a text, got 1"),
        ('{"turns": [], "last_observation": ["a"]}', r"expected a text, got \['a'\]"),
        ('[[{"role": "assistant", "content": "x"}]]', r"expected an object, got \[{'role'"),
        ('"the text"', "expected an object, got 'the text'"),
        ("null", "expected an object, got None"),
    ],
)
def test_other_files_are_refused(text, named, tmp_path):
    (tmp_path / "file").write_text(text)
    with pytest.raises(DataError, match=named):
        read_episodes([tmp_path / "file"])


def test_all_rows_that_are_no_episodes_are_named_at_once(tmp_path):
    """With the column of others that has a name of AgentGym's, and what to do about it."""
    good = '{"messages": [{"role": "assistant", "content": "x"}]}'
    bad = [CHAT % '"task": ["a"]', CHAT % '"success": 0.5', '{"completion": "a"}', "3"]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join([good, *bad, good]))
    for read in (read_episodes, check_episodes):
        with pytest.raises(DataError) as found:
            read(file)
        one, two, three, four = str(found.value).split("\n")
        assert "line 2: not an episode (column 'task': expected a name, got ['a']; rename" in one
        assert "line 3: not an episode (column 'success': expected true or false, got 0.5;" in two
        assert "line 4: not an episode (it has no key 'prompt')" in three
        assert "line 5: " in four and four.endswith("Correct each or delete each.")
    file.write_text("\n".join(bad * 3))
    with pytest.raises(DataError, match=r"line 5: .* And 7 more\. Correct each"):
        read_episodes(file)


def test_rows_that_are_no_episodes_are_not_kept_in_memory(tmp_path):
    file = tmp_path / "rows.jsonl"
    row = json.dumps({"prompts": "x" * 4000})
    file.write_text("\n".join([row] * 1000))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="And 995 more"):
            check_episodes(file)
        assert tracemalloc.get_traced_memory()[1] < file.stat().st_size / 4
    finally:
        tracemalloc.stop()


def test_columns_of_joined_tables_and_other_names_of_roles_are_read(tmp_path):
    """Arrow fills what a row lacks with null, and projects write roles in their own ways."""
    rows = [
        {"messages": [{"role": "User", "content": "a"}, {"role": "ASSISTANT", "content": "b"}]},
        {"conversations": [{"from": "Human", "value": "a"}, {"from": "GPT", "value": "b"}]},
        {"prompt": "a", "completion": "b", "id": 7, "score": [1], "source": {"name": "x"}},
        {"instruction": "a", "input": None, "output": "b"},
        {"conversations": [{"from": "tool_response", "value": "a"}, {"from": "gpt", "value": "b"}]},
        {"messages": [{"role": "ipython", "content": "a"}, {"role": "model", "content": "b"}]},
    ]
    joined = [dict.fromkeys(key for each in rows for key in each) | row for row in rows]
    keys = dict.fromkeys(("role", "content", "from", "value", "weight", "tool_calls"))
    for row in joined:
        for name in ("messages", "conversations"):
            row[name] = row[name] and [keys | message for message in row[name]]
    both = {"from": "gpt", "value": "b", "role": "gpt", "content": "b"}
    joined.append({"messages": [{"role": "user", "content": "a"}, both]})
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in joined))
    found = [(t.observation, t.action) for each in read_episodes(file) for t in each.turns]
    assert found == [("a", "b")] * 7
    file.write_text(json.dumps({"messages": [both | {"content": "c"}]}))
    with pytest.raises(DataError, match="`role` and `content`, or with `from` and `value`"):
        read_episodes(file)


def test_the_last_line_of_a_run_that_was_killed_is_left_out(tmp_path):
    row = {"turns": [{"observation": "o", "action": "a"}], "instructions": ""}
    (tmp_path / "trajectories.jsonl").write_text(f'{json.dumps(row)}\n{{"turns": [')
    assert len(read_episodes(tmp_path)) == 1
    (tmp_path / "trajectories.jsonl").write_text(f'{{"turns": [\n{json.dumps(row)}')
    with pytest.raises(DataError, match="line 1: not JSON"):
        read_episodes(tmp_path)


def test_a_file_may_begin_with_a_byte_order_mark_and_have_the_line_ends_of_windows(tmp_path):
    row = b'{"messages": [{"role": "assistant", "content": "x"}]}'
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbf" + row + b"\r\n\r\n" + row + b"\r\n")
    assert read_episodes(tmp_path / "file") == read_episodes([str(tmp_path / "file")])
    assert len(read_episodes(str(tmp_path / "file"))) == 2


def test_pairs_share_their_prompt():
    def episode(reward, *actions):
        turns = [RecordedTurn(f"o{i}", action) for i, action in enumerate(actions)]
        turns[-1].reward = reward
        return RecordedEpisode(turns, "rules", env="E-v0", task="t", seed=1)

    some = [episode(1.0, "a", "b"), episode(0.0, "a", "c"), episode(0.0, "a", "b")]
    [row] = preference_rows(some)  # equal actions with different luck are no pair
    assert [m["content"] for m in row["prompt"]] == ["rules", "o0", "a", "o1"]
    assert [m["content"] for m in row["chosen"]] == ["b"]
    assert [m["content"] for m in row["rejected"]] == ["c"]


def test_pairs_are_of_one_seat_and_of_returns_that_differ_by_more_than_rounding():
    def episode(action, rewards, seat=""):
        turns = [RecordedTurn("o", action, reward=reward) for reward in rewards]
        return RecordedEpisode(turns, "rules", env="E-v0", task="t", seat=seat)

    sums = [(0.1, 0.2, 0.3), (0.3, 0.2, 0.1)]
    assert sum(sums[0]) != sum(sums[1])
    assert not [*preference_rows([episode("a", sums[0]), episode("b", sums[1])])]
    won, lost = episode("a", [1.0], "player_0"), episode("b", [-1.0], "player_1")
    assert not [*preference_rows([won, lost])]


def test_the_instructions_of_a_seat_are_taken_and_the_environment_stays_as_it_was():
    def told(env: gymnasium.Env[Any, Any], seat: str) -> str | None:
        turn = RecordedTurn("o", "a")
        task = env.get_wrapper_attr("tasks").train[0]
        episode = RecordedEpisode([turn], None, task=task, seat=seat)
        episode.complete(env)
        return episode.instructions

    env = make_env("Retail-TwoPlayer-v0", wrap=["ExtractAction"])
    single: Any = env.unwrapped
    first, second = (told(env, seat) for seat in single.game.possible_agents)
    assert first != second
    for seat, text in zip(single.game.possible_agents, (first, second), strict=True):
        alone = make_env("Retail-TwoPlayer-v0", wrap=["ExtractAction"], seat=seat)
        assert alone.get_wrapper_attr("instructions") == text
    assert single.seat is None
    assert {(env.reset(seed=seed), single.agent)[1] for seed in range(9)} == {
        "player_0",
        "player_1",
    }
    for id, seat in (("Retail-TwoPlayer-v0", "player_9"), ("NumberLine-v0", "player_0")):
        with pytest.raises(DataError, match=f"played in seat '{seat}', and .* has no such seat"):
            told(make_env(id), seat)
