"""Tolerant matching of actions against the admissible actions.

Capitals, whitespace, trailing punctuation, quotes, code marks, code fences, typographic forms, the
label "Action:" and text behind the end marks of chat models are ignored when an action is compared
with the admissible actions. So are articles, marks of a final answer such as a box of LaTeX, a note
behind an action, and text around the only code block, if nothing matches with them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from functools import lru_cache
from textwrap import dedent
from typing import Any

from agentgym.reading.loose_json import read_json
from agentgym.reading.typography import (
    find_reply,
    normalized,
    normalized_code,
    without_end_marks,
)
from agentgym.utils.marks import (
    ARTICLES,
    CLOSING,
    LONGEST,
    last_answer,
    undressed,
    without_bold,
    without_note,
)

# Quantifiers are bounded, so that matching takes linear time for every answer.
_BLANK = r" \t\u00a0\u2009\u202f\u3000"
_LABEL = (
    rf"^[{_BLANK}>*_#]{{0,9}}%s[{_BLANK}*_]{{0,9}}\d{{0,9}}[{_BLANK}*_]{{0,9}}"
    rf"[:\uff1a\ufe55\u2236](?:\*\*|__)?[{_BLANK}]{{0,9}}"
)
_ACTION_LABEL = re.compile(_LABEL % "action", re.IGNORECASE | re.MULTILINE)
_ANY_LABEL = re.compile(_LABEL % "(?:thought|action|observation)", re.IGNORECASE | re.MULTILINE)
OBSERVATION = re.compile(_LABEL % "observation", re.IGNORECASE | re.MULTILINE)
"""The label of an observation, which only a model that imagines the environment writes."""
_FENCE = re.compile(r"```[\w-]{0,20}\r?\n((?:(?!\n```).)*)\n?```", re.DOTALL)
_WORD = r"[\w.+#-]{1,20}"
_OPENED = re.compile(
    rf"(?<![`~])(?:(`{{3,5}}){_WORD}(?:[ \t][^`]{{0,99}})?|(?<!\w)(`{{3,5}})|(~{{3,5}}){_WORD})"
    r"[ \t]{0,9}$",
    re.ASCII,
)
"""The fence at the end of a line before a code block, and the word for its language."""
_CODE = re.compile(r"`([^`]+)`|```([^`]+)```")
_FUNCTION = r"^(?:async[ \t]{1,9})?def[ \t]{1,9}%s[ \t]{0,9}\("
_ASSIGNED = r"^%s[ \t]{0,9}(?::[^=\n]{1,99})?=(?!=)"
_MAX_BRACES = 16
_AROUND = "\"'`*_"
_BEHIND = _AROUND + ".,;:!?"
_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))
_MARK = re.compile(f"[<\\[{_BEHIND}]")
"""A character of everything that is ignored, but for white space."""
_DECORATION = re.compile(r"[<\[`:\r]")
"""A character of everything that `bare` leaves out of an ASCII text, but for white space."""
_COLON = re.compile("[:\uff1a\ufe55\u2236]")
_BOLD = re.compile(r"\*\*((?:(?!\*\*)[^\n])+)\*\*")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")


def labelled(answer: str) -> str:
    """Returns the text between the first label "Action:" and the next label, or "" if none.

    This is the format of ReAct ("ReAct: Synergizing Reasoning and Acting in Language Models", arXiv
    2210.03629). Text that a model generates after its action, such as an "Observation:", is
    ignored. The result is also "" if another action follows without one.
    """
    found = find_labelled(answer)
    if found is None:
        return ""
    _, start, stop = found
    text = answer[start:stop].strip()
    second = find_labelled(answer[stop:])
    if second and not OBSERVATION.search(answer, stop, stop + second[0]):
        if answer[stop:][second[1] : second[2]].strip() not in ("", text):
            return ""
    return text


def find_labelled(answer: str) -> tuple[int, int, int] | None:
    """Returns where the first label "Action:" starts and where the text after it starts and stops.

    The text stops at the next label. None if there is no label.
    """
    label = _ACTION_LABEL.search(answer) if _COLON.search(answer) else None
    if label is None:
        return None
    following = _ANY_LABEL.search(answer, label.end())
    return label.start(), label.end(), following.start() if following else len(answer)


def without_label(text: str) -> str:
    """Returns a message without the label "Action:" before it and the next label with its text."""
    found = find_labelled(text)
    return text if found is None or text[: found[0]].strip() else text[found[1] : found[2]]


def blanked(text: str) -> str:
    """Returns the text with spaces in place of its JSON objects, whose strings may hold any marks.

    Behind 16 braces that begin no object, nothing is replaced.
    """
    pieces, done = [], 0
    start, failures = text.find("{"), 0
    while start >= 0 and failures < _MAX_BRACES:
        try:
            _, stop = read_json(text, start)
            pieces += [text[done:start], " " * (stop - start)]
            done = stop
        except ValueError:
            stop, failures = start + 1, failures + 1
        start = text.find("{", stop)
    return "".join([*pieces, text[done:]])


def find_answer(text: str) -> tuple[int, int]:
    """Returns where the answer of a reasoning model starts and stops, without `<think>` blocks.

    The answer follows the last `</think>`. A block that is not closed reaches to the end. Marks in
    the strings of JSON objects do not count.
    """
    if "think>" not in text:
        return 0, len(text)
    text = blanked(text)
    start = text.rfind("</think>")
    start = 0 if start < 0 else start + len("</think>")
    stop = text.find("<think>", start)
    return start, len(text) if stop < 0 else stop


def unfenced(text: str) -> str:
    """Returns the text without an enclosing code fence."""
    fence = _FENCE.fullmatch(text) if text.startswith("```") else None
    return fence[1].strip() if fence else text


def code_blocks(answer: str) -> list[str]:
    """Returns the code blocks in an answer of a model, without their fences and indents of fences.

    A fence that is indented by more than three spaces against the first one, or stands inside a
    line, is part of the code. A block with a language that is not closed reaches to the end.
    """
    blocks: list[str] = []
    code: list[str] = []
    opened: re.Match[str] | None = None
    for line in answer.replace("\r\n", "\n").split("\n"):
        if opened is None:
            opened, code = _OPENED.search(line), []
            continue
        fence, indent = opened[1] or opened[2] or opened[3], _indent(opened.string)
        alone = line.strip().startswith(fence)
        closes = _indent(line) <= indent + 3 if alone else line.rstrip().endswith(fence)
        if not alone or not closes:
            code.append(line[min(indent, _indent(line)) :])
        if closes:
            text = "\n".join(code)
            blocks.append(text if alone else text.rstrip()[: -len(fence)])
            opened = None
    if opened is not None and not opened[2]:
        blocks.append("\n".join(code))
    return blocks


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def program_of(answer: str, name: str) -> str:
    """Returns the program in an answer that defines a name, or "" if none does.

    It is the last code block with a function of this name, or else the last one that assigns it:
    models explain with a snippet first, correct themselves, and show how the function is called.
    An answer without code blocks is a program as a whole.
    """
    blocks = [dedent(each) if each[:1].isspace() else each for each in code_blocks(answer)]
    blocks = blocks or [bare(answer)]
    for form in (_FUNCTION, _ASSIGNED):
        defined = re.compile(form % re.escape(name), re.MULTILINE)
        for block in reversed(blocks):
            if defined.search(block):
                return block
    return ""


def object_of(answer: str) -> str:
    """Returns the text of the JSON object in an answer, which may not be valid, or "".

    It reaches from the first to the last brace of the last code block that has both, or else of
    the whole answer.
    """
    for text in (*reversed(code_blocks(answer)), answer):
        start, stop = text.find("{"), text.rfind("}")
        if 0 <= start < stop:
            return text[start : stop + 1]
    return ""


def bare(answer: str) -> str:
    """Returns an action without the white space, code marks or bold type around it and "Action:".

    It is for actions that cannot be listed, such as a query or a program. Text behind an end mark
    of a chat model is left out, and typographic forms outside strings are plain.
    """
    stripped = answer.strip()
    if answer.isascii() and not _DECORATION.search(answer) and not stripped.endswith("**"):
        return stripped
    start, stop = find_reply(answer)
    text = normalized_code(answer[start:stop])
    text = unfenced(text.replace("\r\n", "\n").strip())
    text = unfenced((":" in text and labelled(text)) or text).strip()
    marked = _CODE.fullmatch(text) or _BOLD.fullmatch(text)
    return marked[marked.lastindex or 0].strip() if marked else text


def command(answer: str) -> str:
    """Returns `bare` of the first `LONGEST` characters."""
    return bare(answer[:LONGEST])


def code_command(answer: str) -> str:
    """Returns `command` of the only code block in a reply, or of the reply without one.

    It is for commands that hold no code blocks themselves. A fence at the end alone closes a block
    whose start is in the prompt.
    """
    text = without_end_marks(answer[:LONGEST])
    if block := only_block(text):
        return command(block)
    head, _, tail = text.rstrip().rpartition("\n```")
    return command(head if head and not tail and "```" not in head else answer)


def only_block(answer: str) -> str:
    """Returns the code block in a reply, "" if it has none or several.

    Whatever the text around it says, the block is the action, except beside a labelled action, in
    an imagined observation or in thoughts. A fence in a here-document or in quotes is a command's.
    """
    answer = answer[slice(*find_answer(answer))]
    if not 1 <= answer.count("```") <= 2 or "~~~" in answer:
        return ""
    before, _, after = (*answer.split("```"), "")[:3]
    beside = labelled(before) or labelled(OBSERVATION.split(after)[0])
    beside = beside or OBSERVATION.search(before.strip(), 1)
    opened = len(re.findall(r"(?<![^\s=(])'", before)) > len(re.findall(r"(?<=\S)'(?!\w)", before))
    quoted = "<<" in before or before.count('"') % 2 or opened
    blocks = [] if beside or quoted else code_blocks(answer)
    return blocks[0] if len(blocks) == 1 else ""


def plain(text: str, *, cased: bool = False) -> str:
    """Returns the normalised form in which actions are compared.

    Of marks alone, as in "*", the first ones up to a space are kept.

    Args:
        text: an agent's action, or an admissible action.
        cased: whether capitals are kept.
    """
    return _recent(text, cased) if len(text) < _LONGEST_CACHED else _plain(text[:LONGEST], cased)


def _plain(text: str, cased: bool) -> str:
    text = normalized(text.strip())
    before, text = None, text if cased else text.casefold()
    while _MARK.search(text) and text != before:
        before = text
        text = text[slice(*find_reply(text))].strip()
        text = unfenced((":" in text and labelled(text)) or text)
        inner = text.lstrip(_AROUND + _SPACE).rstrip(_BEHIND + _SPACE)
        text = inner or next(iter(text.split()), "")
    return " ".join(text.split())


_LONGEST_CACHED = 100
_recent = lru_cache(maxsize=4096)(_plain)
"""The forms of short texts: games have few actions."""


def match_action(action: str, actions: Sequence[str], *, cased: bool = False) -> str | None:
    """Returns the matching action, or None if there is no match or it is ambiguous.

    Args:
        action: an agent's action.
        actions: the admissible actions.
        cased: whether matching is case-sensitive.
    """
    if action in actions:
        return action
    if not actions:
        return None
    known = [plain(each, cased=cased) for each in actions]
    words = plain(action, cased=cased)
    if words not in known and not any("\n" in each for each in actions):
        answer = action[:LONGEST]
        paragraph = first_paragraph(answer)
        words = words if paragraph is answer else plain(paragraph, cased=cased)
    found = [each for each, form in zip(actions, known, strict=True) if form == words]
    if not found and not cased:
        found = _match_loosely(action[:LONGEST], actions, known)
    return found[0] if len(found) == 1 else None


def _match_loosely(answer: str, actions: Sequence[str], known: Sequence[str]) -> list[str]:
    """Returns the actions that match the marked answer of a reply, or differ in articles and "_".

    Args:
        answer: an agent's action that matches none.
        actions: the admissible actions.
        known: their plain forms.
    """
    answer = without_end_marks(answer)
    if answer.rstrip(CLOSING).endswith("?") and not any("?" in each for each in actions):
        return []
    paragraph = first_paragraph(answer)
    spoken = ARTICLES.isdisjoint(known)  # else articles are actions, as in a text word by word
    rows = answer.strip().split("\n")  # "left" and later "Answer: up" are two:
    marked = "" if plain(rows[0]) in known else last_answer(paragraph)
    brief = paragraph if any("(" in each for each in known) else without_note(paragraph, known)
    block, ends = only_block(answer), {plain(undressed(row)) for row in (rows[0], rows[-1])}
    if block and plain(undressed(block)) not in ends and not ends.isdisjoint(known):  # two
        return []
    dressed = (paragraph, marked, without_bold(brief), block)
    parts = (paragraph, *map(undressed, dressed))
    for form in filter(None, dict.fromkeys(map(plain, parts))):
        for change in (str, _without_articles) if spoken else (str,):
            wanted = change(form)
            found = [i for i, each in enumerate(known) if change(each) == wanted] if wanted else []
            if found:
                lettered = change is not str and any(_has_letter(known[i], known) for i in found)
                return [] if lettered else [actions[i] for i in found]
    return []


def _has_letter(form: str, known: Sequence[str]) -> bool:
    """Whether "a" in a plain form is a letter, because another action has another one there."""
    start, _, stop = f" {form} ".partition(" a ")
    return bool(stop) and any(
        len(each) == len(form)
        and f" {each} ".startswith(f"{start} ")
        and f" {each} ".endswith(f" {stop}")
        for each in known
        if each != form
    )


@lru_cache(maxsize=4096)
def _without_articles(form: str) -> str:
    """Returns a plain form without articles, and with "player 1" for "player_1".

    Letters, as in "a to c" and "a b o u t", are kept.
    """
    words = form.replace("_", " ").split()
    following = (*words[1:], "")
    pairs = zip(words, following, strict=False)
    kept = [w for w, n in pairs if w not in ARTICLES or len(n) < 3 or not n[0].isalpha()]
    return " ".join(kept)


def first_paragraph(answer: str) -> str:
    """Returns the paragraph behind the first label "Action:", or the whole text without a label.

    Models explain an action of one line behind a blank line.
    """
    text = labelled(answer.replace("\r\n", "\n"))
    return _PARAGRAPH.split(text, maxsplit=1)[0] if text else answer


def check_text(action: Any) -> None:
    """Raises TypeError if an action is not a string."""
    if not isinstance(action, str):
        raise TypeError(f"An action must be a str, got {type(action).__name__}: {action!r:.80}.")


def text_of(action: object) -> str:
    """Returns the letters of an action, which `str` does not for a member of a `str, Enum`."""
    return str.__str__(action) if isinstance(action, str) else str(action)


def numbered(action: Any) -> int:
    """Returns a numbered action as an int. It may be an integer of Python, NumPy or PyTorch.

    Raises:
        TypeError: if it is not an integer.
    """
    try:
        return operator.index(action)
    except TypeError:
        raise TypeError(
            f"Actions of this environment are numbers: expected one integer, got "
            f"{type(action).__name__}: {action!r:.80}."
        ) from None
