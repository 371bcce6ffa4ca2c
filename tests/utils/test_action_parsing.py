"""Tolerated decorations of actions, in environments and games."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym  # noqa: F401  # registers the ids
from agentgym.reading import normalized
from agentgym.utils import action_parsing
from agentgym.utils.action_parsing import (
    code_blocks,
    code_command,
    command,
    match_action,
    object_of,
    plain,
    program_of,
)
from agentgym.utils.marks import undressed, without_bold

ACTIONS = ("check", "bet 2", "[pass]", "3 - 1", "Is it alive?")
MARKED = ("{}", " {}\n", "{}.", "{}!", '"{}".', "“{}.”", "`{}`", "**{}**", "```\n{}\n```")
LABELLED = (
    "Action: {}",
    "**Action:** `{}`.",
    "```text\nAction: {}\n```",
    "Thought: what else?\nAction: {}\nObservation: made up",
)


@st.composite
def dresses(draw: st.DrawFn) -> str:
    """A template of nested marks, with an optional label and more marks."""
    dress = "{}"
    for templates in (MARKED, MARKED, ("{}", *LABELLED), MARKED):
        dress = draw(st.sampled_from(templates)).format(dress)
    return dress


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("dress", MARKED + LABELLED)
def test_what_agents_add_changes_nothing(action: str, dress: str):
    assert match_action(dress.format(action), ACTIONS) == action
    assert match_action(dress.format(action.upper()), ACTIONS) == action


@given(st.sampled_from(ACTIONS), dresses())
def test_nor_does_it_where_they_add_much(action: str, dress: str):
    assert match_action(dress.format(action), ACTIONS) == action


@given(st.text(max_size=60), dresses())
def test_plain_forms_are_plain(text: str, dress: str):
    form = plain(dress.replace("{}", text))
    assert plain(form) == form


@given(st.text(), st.lists(st.text(), max_size=5))
def test_only_a_listed_action_is_ever_meant_and_a_listed_one_always(said: str, actions: list[str]):
    assert match_action(said, actions) in (None, *actions)
    for action in actions:
        assert match_action(action, actions) == action


@pytest.mark.parametrize(
    "said", ["", ".", "check or bet 2", "I check", "checks", "bet", "bet 20", "3 + 1", "²", "-1"]
)
def test_nothing_else_is_taken_for_an_action(said: str):
    assert match_action(said, ACTIONS) is None


def test_what_may_be_two_actions_is_none():
    assert match_action("go.", ("Go", "go")) is None
    assert match_action("go", ("Go", "go")) == "go"
    assert match_action("*", ("*", "_")) == "*"


def test_endless_texts_are_read_at_once():
    for text in ("x" * 10**7, "Action: " * 10**6, "`" * 10**7, "```\n" * 10**6, ">" * 10**7):
        assert match_action(text, ACTIONS) is None


@pytest.mark.parametrize("id", ["AgentGym/Maze-v0", "AgentGym/KuhnPoker-v0", "AgentGym/Bandit-v0"])
def test_environments_and_games_read_alike(id: str):
    for dress in MARKED + LABELLED:
        env: Any = gymnasium.make(id)
        _, info = env.reset(seed=0)
        action = info["admissible"][0]
        expected = env.step(action)
        env.reset(seed=0)
        assert env.step(dress.format(action.upper())) == expected


def test_chess_moves_keep_their_capitals():
    pytest.importorskip("chess")
    env: Any = gymnasium.make("AgentGym/Chess-v0")
    env.reset(seed=0)
    assert not env.step("NF3")[4]["valid"]
    assert env.step("Action: `Nf3`.")[4]["valid"]


def test_code_blocks_are_found_in_prose():
    assert code_blocks("a\n```python\nx = 1\n```\nb\n```\ny\n```") == ["x = 1", "y"]
    assert code_blocks("no code") == []


SOLVE = "def solve(x):\n    return x"


@pytest.mark.parametrize(
    ("blocks", "program"),
    [
        ([SOLVE], SOLVE),
        (["re.findall('a', x)", SOLVE], SOLVE),
        (["def solve(x):\n    return 1 / 0", SOLVE], SOLVE),
        ([SOLVE, "print(solve(3))"], SOLVE),
        ([SOLVE, "solve = solve(3)"], SOLVE),
        ([SOLVE, "def solve_all(xs):\n    return [solve(x) for x in xs]"], SOLVE),
        (["import re\n\nsolve = re.compile('a').findall", "solve == 3"], "import re\n\nsolve = "
         "re.compile('a').findall"),
        (["solve: object = len"], "solve: object = len"),
        (["    def solve(x):\n        return x"], SOLVE),
        (["def solve(x:"], "def solve(x:"),
        (["class A:\n    def solve(self):\n        pass"], ""),
        (["resolve = 3", "x.solve = 3"], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_a_program_is_the_last_block_that_defines_the_name(blocks: list[str], program: str):
    assert (
        program_of("So:\n" + "\n".join(f"```python\n{x}\n```" for x in blocks), "solve") == program
    )


def test_an_answer_without_blocks_is_a_program_as_a_whole():
    assert program_of(f"Action: {SOLVE}<|im_end|>", "solve") == SOLVE
    assert program_of("I define solve = 3 later.", "solve") == ""


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('Here: {"a": {}} Done.', '{"a": {}}'),
        ('Cases are objects:\n```json\n{"when": {}}\n```\nSo:\n```json\n{"a": 1}\n```', '{"a": 1}'),
        ('```json\n{"a": 1}\n```\nRun:\n```\nmake\n```', '{"a": 1}'),
        ('```\nmake\n```\n{"a": 1}', '{"a": 1}'),
        ("none", ""),
    ],
)
def test_an_object_is_that_of_the_last_block_that_has_one(answer: str, text: str):
    assert object_of(answer) == text


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Action: ```python\nx = 1```", "x = 1"),
        ("代码如下```python\nx = 1\n```", "x = 1"),
        ("~~~python\nx = 1\n~~~\nDone.", "x = 1"),
        ("So:\n```python\nx = 1", "x = 1"),  # a server stops at the closing fence
        ('```python title="a.py"\nx = 1\n``` This works.', "x = 1"),
        ("Call ```f``` so:\n```\nx = 1\n```", "x = 1"),
        ("````python\nx = '''\n```\n'''\n````", "x = '''\n```\n'''"),
        ("```python\nx = '```'\ny = 2\n```", "x = '```'\ny = 2"),
        ('```\ndef f():\n    """As in\n    ```\n    f()\n    ```\n    """\n```',
         'def f():\n    """As in\n    ```\n    f()\n    ```\n    """'),
        ("1. So:\n      ```\n      if x:\n\n        y\n      ```\n", "if x:\n\n  y"),
    ],
)  # fmt: skip
def test_the_code_of_a_block_reaches_to_its_own_fence(answer: str, code: str):
    assert code_blocks(answer) == [code]


@pytest.mark.parametrize("answer", ["x = 1\n```\nDone.", "A\n~~~\nB\n", "``````\n", "```x```\ny"])
def test_other_marks_begin_no_block(answer: str):
    assert code_blocks(answer) == []


def test_carriage_returns_are_no_part_of_code():
    """Chat servers and files of some systems end lines with them."""
    assert code_blocks("Now:\r\n```python\r\nx = 1\r\nx\r\n```\r\n") == ["x = 1\nx"]
    assert command("```\r\nedit a.py 1-2\r\nx = 1\r\nx\r\n```") == "edit a.py 1-2\nx = 1\nx"
    assert match_action("```text\r\nbet 2\r\n```", ACTIONS) == "bet 2"


@pytest.mark.parametrize(
    ("said", "meant"),
    [("３ − 1", "3 - 1"), ("“bet 2”", "bet 2"), ("bet\u00a02", "bet 2"), ("bet\u202f２…", "bet 2"),
     ("Action： check", "check"), ("check<|im_end|>\nbet 2", "check"), ("bet \u200b2", "bet 2"),
     ("<|im_start|>assistant\nAction: check<|eot_id|>", "check"), ("『check』", "check"),
     ("Action: check\n\nThis should work.", "check"), ("Action: check</s>Action: bet 2", "check")],
)  # fmt: skip
def test_typographic_forms_and_end_marks_change_nothing(said: str, meant: str):
    assert match_action(said, ACTIONS) == meant


@pytest.mark.parametrize(
    "said",
    ["check\n\nbet 2", "Action: check or\n\nbet 2", "Action:\n\ncheck, bet 2", "<|im_end|>check",
     "Action: check\nAction: bet 2", "Action: check\nThought: no.\n**Action:** bet 2"],
)  # fmt: skip
def test_a_part_is_never_taken_for_an_action(said: str):
    assert match_action(said, ACTIONS) is None


def test_strings_of_programs_keep_their_marks():
    assert command("print(“a”)\u00a0# −") == 'print("a") # -'
    assert command('print("“a” − b")') == 'print("“a” − b")'
    assert command("x = 1<|im_end|>\ny") == "x = 1"


BOXED = (
    "\\boxed{{{}}}",
    "$\\boxed{{\\text{{{}}}}}$",
    "Answer: {}",
    "**Final answer:** {}",
    "My move is {}.",
    "[{}]",
    "<answer>{}</answer>",
    "<action> {} </action>",
    "It is my turn. The pot is small.\n\n\\boxed{{{}}}",
    "It is my turn. So the answer is {}.",
    "I could go on.\n<answer>{}</answer>",
)


@pytest.mark.parametrize("action", ["check", "bet 2", "player_1"])
@pytest.mark.parametrize("form", BOXED)
def test_a_marked_answer_is_the_action(form: str, action: str):
    actions = ("check", "bet 2", "player_1", "not check")
    assert match_action(form.format(action), actions) == action
    assert match_action(form.format(f"no {action}"), actions) is None
    assert match_action(form.format(action), actions, cased=True) is None


@pytest.mark.parametrize(
    "said",
    [
        "\\boxed{up} or \\boxed{down}", "Answer: up\nAnswer: down", "Avoid: up", "Move: up, down",
        "If the answer is up, I lose", "I thought \\boxed{up}, but there is a wall.", "[up] [down]",
        "The answer is up?", "Answer: up\n\nNo wait, down", "up\n\nNo wait, down", "Answer: not up",
        "move: up?  no", "My name is up", "Don't say \\boxed{up}", "I will not play \\boxed{up}.",
        "Never \\boxed{up}", "Anything but <answer>up</answer>", "Not\n\\boxed{up}",
        "The format is \\boxed{up}", "Format: Answer: up", "No answer: up", "down\n\nAnswer: up",
        "Player 1: up", "Player_2 is up", "Column 3: up", "\\boxed{up?}", "My vote is **up?**",
        "If they play \\boxed{up}", "Action: jump\nObservation: The answer is up",
        "Action: up\nAction: down\nAnswer: down", "left<|im_end|>\n<|im_start|>user\nAnswer: up",
    ],
)  # fmt: skip
def test_other_words_beside_a_marked_answer_are_not_dropped(said: str):
    assert match_action(said, ("up", "down")) is None


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("walk to kitchen", "walk to the kitchen"),
        ("pick up a tomato", "pick up the tomato"),
        ("Make a wood pickaxe.", "make wood pickaxe"),
        ("the red jar", "red jar"),
        ("player\\_1", "player_1"),
        ("Player 1", "player_1"),
        ("b o u t", None),
        ("to C", None),
        ("10", None),
        ("the", None),
        ("put the cup on shelf", None),
    ],
)
def test_articles_do_not_matter_but_letters_do(said: str, action: str | None):
    actions = (
        "walk to the kitchen", "pick up the tomato", "make wood pickaxe", "red jar", "player_1",
        "a b o u t", "A to C", "a 10", "put cup on shelf 1", "put a cup on the shelf",
        "put the cup on a shelf",
    )  # fmt: skip
    assert match_action(said, actions) == action


def test_a_listed_action_with_fewer_changes_is_meant():
    assert match_action("the word is bad", ("word is bad", "bad")) == "word is bad"
    assert match_action("word: bad", ("word is bad", "bad")) == "bad"


@pytest.mark.parametrize(
    "said",
    [
        "I may go down. No. Answer: up", "There is no wall, so I choose \\boxed{up}",
        "They would go down! My move is \\boxed{up}.", "If not,\n\nAnswer: up", "Move 3: up",
    ],
)  # fmt: skip
def test_denials_in_other_sentences_deny_no_answer(said: str):
    assert match_action(said, ("up", "down")) == "up"


def test_an_article_that_is_one_of_several_letters_matters():
    actions = ("unstack a from b", "unstack c from b", "look at a tree")
    assert match_action("unstack from b", actions) is None
    assert match_action("look at tree", actions) == "look at a tree"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Answer: 2**3 + 4", "2**3 + 4"), ("**Answer:** 2**3", "2**3"), ("**Answer: up**.", "up."),
        ("**My move is up** now", "up now"),
    ],
)  # fmt: skip
def test_powers_are_no_bold_type(text: str, expected: str):
    assert undressed(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The answer is liar?", "The answer is liar?"), ("**My bid: 2 ones?**", "My bid: 2 ones?"),
        ("My guess: Is it a potato?", "Is it a potato?"), ("Question: In Asia?", "In Asia?"),
    ],
)  # fmt: skip
def test_a_question_about_an_answer_keeps_its_label(text: str, expected: str):
    assert undressed(text) == expected


def test_marks_of_bold_type_are_left_out_and_powers_kept():
    assert (
        without_bold("**It** is **2**: 2**3 is 4**2 - 8 ** 1.") == "It is 2: 2**3 is 4**2 - 8 ** 1."
    )


def test_articles_that_are_actions_matter():
    words = ("the", "a", "tall", "end")
    assert match_action("The", words) == "the"
    for said in ("the tall", "a tall", "tall the", "the end"):
        assert match_action(said, words) is None


@given(st.text(max_size=30).filter(str.strip), st.lists(st.sampled_from(BOXED), max_size=3))
def test_nothing_but_marks_is_left_out(text: str, forms: list[str]):
    for form in forms:
        text = form.format(text)
    assert set(undressed(text)) <= set(normalized(text))
    assert match_action(text, ("never listed",)) is None


@pytest.mark.parametrize("id", ["AgentGym/SQL-v0", "AgentGym/SearchQA-v0", "AgentGym/Shell-v0"])
def test_an_action_that_is_not_listed_may_be_bold(id: str):
    env: Any = gymnasium.make(id)
    env.reset(seed=0)
    action = env.unwrapped.expert()
    expected = env.step(action)
    env.reset(seed=0)
    assert env.step(f"**{action}**\n") == expected


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("left (towards the lake)", "left"),
        ("**left** (the lake is on that side).", "left"),
        ("Action: left (it is free)", "left"),
        ("**left**: the lake is on that side.", "left"),
        ("**left** \u2013 the lake is there", "left"),
        ("**go** north", "go north"),
        ("go to **kitchen** (to cook)", "go to the kitchen"),
        ("left (it is no longer closed)", "left"),
        ("left (then up)", None),
        ("left (next I jump)", None),
        ("left (or up)", None),
        ("left (it does not matter)", None),
        ("left (I don't know)", None),
        ("left (is it free?)", None),
        ("left (twice)", None),
        ("left (x2)", None),
        ("left (2)", None),
        ("**left**: up is as good", None),
        ("**left** up", None),
        ("(left)(up)", None),
    ],
)
def test_a_note_behind_an_action_is_left_out(said: str, action: str | None):
    assert match_action(said, ("left", "up", "go north", "go to the kitchen")) == action


def test_a_note_is_kept_where_actions_have_parentheses():
    assert match_action("raise (all in)", ("raise", "raise (all in)")) == "raise (all in)"
    assert match_action("raise (half of it)", ("raise", "raise (all in)")) is None


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("I look at the files first.\n```bash\nls -l\n```", "ls -l"),
        ("The folder is not there. Let me list what is:\n\n```sh\nls -l\n```\n", "ls -l"),
        ("```\nls -l\n```\nIt shows all files, also those that are not mine.", "ls -l"),
        ("```bash\nls -l", "ls -l"),
        ("Let me list the files\n```\nls -l\n```", "ls -l"),
        ("ls -l\n```", "ls -l"),
        ("I look.\n```\nls -l\n```<|im_end|>", "ls -l"),
        ("ls -l", "ls -l"),
        *(
            (said, said)
            for said in (
                "I list them:\n```\nls\n```\nI sort them:\n```\nsort a\n```",
                'echo "# Title\n```\nls\n```" > a.md',
            )
        ),
    ],
)
def test_the_only_code_block_of_a_reply_is_its_command(said: str, line: str):
    assert code_command(said) == line


def test_an_action_may_be_the_only_code_block():
    assert match_action("I go left, it is free.\n```\nleft\n```", ("left", "up")) == "left"
    assert match_action("```\nleft\n```\nIt is free.", ("left", "up")) == "left"
    assert match_action("up\n```\nleft\n```", ("left", "up")) is None


@pytest.mark.parametrize("piece", ["? ", "! ? ", "* ", "x ? ", '" '])
def test_marks_around_a_text_are_left_out_at_once(piece: str, monkeypatch: pytest.MonkeyPatch):
    """Each round reads the whole text."""
    rounds: list[str] = []
    find_reply = action_parsing.find_reply
    monkeypatch.setattr(
        action_parsing, "find_reply", lambda text: rounds.append(text) or find_reply(text)
    )
    plain(piece * 2000)
    plain("go" + piece * 2000)
    assert len(rounds) <= 6
