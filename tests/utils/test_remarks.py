"""Notes and sentences around an action: those that change its meaning are never left out."""

from __future__ import annotations

import pytest

from agentgym.utils.action_parsing import code_command, match_action

ACTIONS = ("left", "right", "up", "go north", "go to the kitchen", "take key", "look")


@pytest.mark.parametrize(
    "note",
    [
        *("rejected", "discarded", "skip", "scratch that", "correction: r", "blocked", "fails"),
        *("considered", "opposite", "unlikely", "probably", "I think", "optional", "unsure"),
        *("three steps", "two", "10 steps", "half", "a few", "repeat", "again", "all the way"),
        *("later", "after that, jump", "until the wall", "else stay", "and jump", "already done"),
        *("just kidding", "strike that", "Bob's move", "her idea", "in case of rain", "tomorrow"),
        *("as far as possible", "suppose it works", "it loses", "the exit is locked", "tell Bob"),
        *("north", "kitchen", "to the kitchen", "go to kitchen", "free. The other is better"),
    ],
)
def test_a_note_that_changes_an_action_is_kept(note: str):
    assert match_action(f"left ({note})", ACTIONS) is None
    assert match_action(f"**left**: {note}", ACTIONS) is None


@pytest.mark.parametrize(
    "before",
    [
        *("Rejected options:", "What failed before:", "My old move was:", "This fails:", "I see:"),
        *("The state is:", "The current map:", "The help says:", "You said:", "Is it this:"),
        *("Possible moves are these:", "When the door opens:", "Later I do:", "I do this twice:"),
        *("I was about to do this:", "He told me to play:", "After that I will do:", "The output:"),
        *("Player 2 plays this:", "Bob's move:", "The worst move is:", "Beware of this:"),
        *("This loses the game:", "I forgot this:", "Suppose I do this:", "Provided it is free:"),
        *("In case of rain:", "Next turn:", "Tomorrow I do:", "You want me to do:", "My notes:"),
        *("Option 1:", "Or this:", "Undo this:", "I refuse this:", "Half of this:", "It reads:"),
        *("I hesitate to do:", "Ask him to do:", "My old plan:", "The choices:", "I played this:"),
        *("Either this or that:", "I do this two times:", "It gave an error:", "I run `pwd`."),
        *("cat > a.md <<EOF\nRun it:", "echo 'Run it like this:", 'echo "Run it like this:'),
    ],
)
def test_a_block_that_sentences_do_not_lead_to_is_no_action(before: str):
    said = f"{before}\n```\nleft\n```"
    assert match_action(said, ACTIONS) is None
    assert code_command(said) == said


@pytest.mark.parametrize(
    "after",
    [
        *("is wrong.", "would be wrong, so I go", "fails.", "On second thought, I stay.", "?"),
        *("That is what the opponent did.", "This is bad.", "I will not do this.", '" > a.md'),
        *("Just kidding.", "Forget it.", "I changed my mind.", "Twice.", "Again.", "I doubt it."),
        *("If it is free.", "As Bob said.", "It is a trap.", "Strike that.", "Next: up."),
        *("It is free. I would rather stay, though.", "Is this my move? It is.", "`pwd`"),
    ],
)
def test_sentences_behind_a_block_take_it_back(after: str):
    said = f"I choose this:\n```\nleft\n```\n{after}"
    assert match_action(said, ACTIONS) is None
    assert code_command(said) == said


@pytest.mark.parametrize(
    "said",
    [
        *("I go right.\n```\nleft\n```", "I go up:\n```\nleft\n```", "```\nleft\n```\n**up**"),
        *("```\nleft\n```\nUp is as good.", "I go to the kitchen.\n```\nleft\n```"),
    ],
)
def test_a_block_beside_another_action_is_none(said: str):
    assert match_action(said, ACTIONS) is None


@pytest.mark.parametrize(
    "said",
    [
        "To find it, I run:\n```\nX\n```\nThis should show it. If it fails, I look elsewhere.",
        "Here is the query:\n```sql\nX\n```\n**Explanation:** It counts all rows.",
        'I open "a.txt" to read what\'s in it:\n```bash\nX\n```\n\nObservation: not there',
        "Let me see what is there:\n```\nX\n```",
        "The next command is:\n```\nX\n```",
        "Based on the schema, I count the rows.\n```\nX\n```",
        "Looking at the files, I need the oldest one:\n```\nX\n```",
        "Checking the folder:\n```\nX\n```",
        "The file was empty. Let me try again:\n```\nX\n```",
        "Now let's run the tests to see if they pass.\n```\nX\n```",
        "We should first open the `a.txt` file.\n```\nX\n```",
    ],
)
def test_usual_sentences_lead_to_a_block(said: str):
    assert code_command(said) == "X"


@pytest.mark.parametrize(
    "part", ["(", "a (b) ", "**a** ", "a. ", "```\n", "x' ", "one times ", "`"]
)
def test_long_replies_take_linear_time(part: str):
    said = (part * 100_000)[:100_000]
    assert match_action(f"{said}\n```\nleft\n```\n{said}", ACTIONS) is None
    assert match_action(f"left ({said})", ACTIONS) is None
    assert code_command(said)
