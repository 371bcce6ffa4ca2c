"""Notes and text around an action: a note that changes it stays, and the only code block is it."""

from __future__ import annotations

import pytest

from agentgym.utils.action_parsing import code_command, match_action

ACTIONS = ("left", "right", "up", "go north", "go to the kitchen", "take key", "look")


@pytest.mark.parametrize(
    "note",
    [
        *(
            "rejected",
            "not now",
            "wrong",
            "skip",
            "opposite",
            "perhaps",
            "if it is free",
            "wait",
        ),
        *("all the way", "to the end", "a couple", "a bit", "slightly", "keep going", "every turn"),
        *("cancelled", "ignore this", "my mistake", "scratch that", "just kidding", "correction"),
        *("once it is free", "when it opens", "as soon as it opens", "unsure", "I guess", "either"),
        *("three steps", "two", "10 steps", "half", "a few", "repeat", "again", "x2", "twice"),
        *(
            "later",
            "after that, jump",
            "until the wall",
            "else stay",
            "and jump",
            "or stay",
            "then up",
        ),
        *(
            "north",
            "kitchen",
            "to the kitchen",
            "go to kitchen",
            "free. The other is better",
            "go on",
        ),
    ],
)
def test_a_note_that_may_change_an_action_is_kept(note: str):
    assert match_action(f"left ({note})", ACTIONS) is None
    assert match_action(f"**left**: {note}", ACTIONS) is None


@pytest.mark.parametrize(
    "note",
    [
        *("towards the door", "since the hall is empty", "as it was the shortest way", "done!"),
        *("the door is no longer locked", "this achieves the goal", "hand: empty, block: clear"),
    ],
)
def test_a_note_that_explains_an_action_is_left_out(note: str):
    assert match_action(f"left ({note})", ACTIONS) == "left"
    assert match_action(f"**left**: {note}", ACTIONS) == "left"


@pytest.mark.parametrize(
    "said",
    [
        "To find it, I run:\n```\nX\n```\nThis should show it. If it fails, I look elsewhere.",
        "Here is the query:\n```sql\nX\n```\n**Explanation:** It counts all rows, not the first.",
        'I open "a.txt" to read what\'s in it:\n```bash\nX\n```\n\nObservation: not there',
        "It seems the file doesn't exist. We should create it first\n```\nX\n```",
        "The suggested fix did not work, e.g. for `None`:\n\n```\nX\n```\n",
        "The tests' output isn't there, so I list the users' files:\n```\nX\n```",
        "```\nX\n```",
        "```bash\nX",
        "Now:\n```\nX```",
        "Thought: I go\nAction:\n```\nX\n```\nObservation: done\nThought: y\nAction: look",
        "Observation: it isn't there.\n```\nX\n```",
        "<think>\n```\nleft\n```\n</think>\n```\nX\n```",
    ],
)
def test_the_only_block_is_the_action(said: str):
    assert code_command(said) == "X"
    assert match_action(said.replace("X", "up"), ACTIONS) == "up"


@pytest.mark.parametrize(
    "said",
    [
        "left\n```\nup\n```",
        "```\nup\n```\n**left**",
        "Answer: left\n```\nup\n```",
        "```\nup\n```\n\\boxed{left}",
        "<answer>left</answer>\n```\nup\n```",
        "```\nup\n```\nor\n```\nleft\n```",
        "Go left:\n```\nup",
        "It shows:\n```\nup\n```\nAction: jump",
        "Action: jump\n```\nup\n```",
        "Action: jump\n\nObservation:\n```\nup\n```",
        "jump\n\nObservation:\n```\nup\n```",
        "<think>\n```\nleft\n```\n</think>\njump",
    ],
)
def test_one_of_two_answers_is_none(said: str):
    assert match_action(said, ACTIONS) is None


@pytest.mark.parametrize(
    "said",
    [
        "cat > a.md <<EOF\n```\nls\n```\nEOF",
        'echo "\n```\nls\n```\n" > a.md',
        "```\nls\n```\nand\n```\npwd\n```",
        "~~~\nls\n~~~\n```\npwd\n```",
        "echo '\n```\nls\n```\n' > a.md",
        "<think>\n```\nls\n```\n</think>\npwd",
    ],
)
def test_a_block_in_a_command_and_several_blocks_are_none(said: str):
    assert code_command(said) == said


@pytest.mark.parametrize(
    "said",
    [
        "It printed:\n```\na.txt\n```\nAction: ls",
        "Thought: I look\nAction: ls\n\nObservation:\n```\na.txt\n```",
    ],
)
def test_a_labelled_action_is_the_action_beside_a_block(said: str):
    assert code_command(said) == "ls"


@pytest.mark.parametrize(
    "part", ["(", "a (b) ", "**a** ", "a. ", "```\n", "x' ", "one times ", "`"]
)
def test_long_replies_take_linear_time(part: str):
    said = (part * 100_000)[:100_000]
    assert match_action(f"{said}\n```\nleft\n```\n{said}", ACTIONS) is None
    assert match_action(f"left ({said})", ACTIONS) is None
    assert code_command(said)


def test_a_marked_answer_in_a_block_is_one_answer():
    assert match_action("```bash\nThe answer is left", ACTIONS) == "left"
    assert match_action("I choose:\n```\n\\boxed{left}\n```", ACTIONS) == "left"
