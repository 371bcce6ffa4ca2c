r"""The final answer in a model's reply: labels, `\boxed{}`, bold type, fences and thoughts."""

from __future__ import annotations

import re

from agentgym.reading.errors import NotUnderstood
from agentgym.reading.numbers import undecorated
from agentgym.reading.typography import find_reply, folds_plainly, normalized

LONGEST = 100_000
"""Maximum number of characters of a reply."""
_LABEL = re.compile(
    r"(?:^[ \t>*_#-]{0,9}|(?<=[.!?:\n])[ \t]{0,3})[*_]{0,3}"
    r"(?:(?:so|thus|therefore|hence|wait|actually|no|sorry|oops|hm{1,4}|correction|hold on|rather|"
    r"instead|but|then|and|now|finally|in fact|ok|okay|well|my mistake)\b[ ,.:!-]{1,5}){0,4}"
    r"(?:my |the )?(?:final |correct )?(?:answer|result|solution)[ \t*_]{0,9}"
    r"(?::|=|\bis\b:?|#{4})[ \t*_]{0,9}",
    re.IGNORECASE | re.MULTILINE,
)
_HASHES = "####"
"""The label of GSM8K, before a number or on the last line. Before other lines, it is a heading."""
_HASHED = re.compile(r"^####[ \t]{0,9}(-?[$]?\d[^\n]{0,99})", re.MULTILINE)
_LETTERED = re.compile(
    r"^\W{0,9}[b-pr-z][.:)]|\b(?:team|player|option|choice|side|agent)s? [a-z]\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Letters that name people or choices, as "A:" then does."""
_BOXED = re.compile(r"\\(?:boxed|fbox)\s?\{")
_TAGGED = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.IGNORECASE | re.DOTALL)
_FENCE = re.compile(r"```[\w-]{0,20}[ \t]*\n(.*?)\n?```", re.DOTALL)
_MOST = 64


def find_answer_text(text: str) -> list[str]:
    r"""Returns the marked answers in a reply: `<answer>`, `\boxed{}`, "Answer:" lines, "####".

    Each is in its undecorated form. The list is empty if nothing is marked.
    """
    if not _may_be_marked(text):
        return []
    found = [match[1] for match in _TAGGED.finditer(text)]
    for match in list(_BOXED.finditer(text))[:_MOST]:
        if (stop := _closing(text, match.end())) >= 0:
            found.append(text[match.end() : stop])
    for match in list(_LABEL.finditer(text))[:_MOST]:
        end = text.find("\n", match.end())
        line = text[match.end() : end if end >= 0 else len(text)].partition(_HASHES)[0]
        if not line.strip(" \t*_") and end >= 0:  # the answer is on the next line
            following = text[end:].lstrip("\n \t#")
            line = following.partition("\n")[0]
        found.append(_boxed(line))
    found += [match[1] for match in list(_HASHED.finditer(text))[:_MOST]]
    before, _, last = f"\n{text.rstrip()}".rpartition("\n")
    lead, hashes, answer = last.rpartition(_HASHES)
    ends = not lead or lead.rstrip().endswith((".", "!")) or _LABEL.search(lead) is not None
    if hashes and answer.strip() and ends:
        found.append(_boxed(answer))
    elif last.startswith("A:") and _concludes(before.rstrip()):  # as behind "Q:"
        found += [] if _LETTERED.search(before) else [last[2:]]
    return [undecorated(answer) for answer in found]


def _concludes(before: str) -> bool:
    """Whether the last line of a text is a sentence with its mark, or a calculation."""
    return before.endswith((".", "!", "?")) or "=" in before.rpartition("\n")[2]


def _may_be_marked(text: str) -> bool:
    """Whether a reply has a part that every mark of an answer has. It is much faster."""
    if "\\" in text or "####" in text or "\nA:" in text or not folds_plainly(text):
        return True
    lower = text.lower()
    return "answer" in lower or "result" in lower or "solution" in lower


def _boxed(line: str) -> str:
    match = _BOXED.search(line)
    stop = _closing(line, match.end()) if match else -1
    return line[match.end() : stop] if match and stop >= 0 else line


def _closing(text: str, start: int) -> int:
    """Returns the index of the brace that closes a group, within 1,000 characters, or -1."""
    depth = 1
    for at in range(start, min(len(text), start + 1000)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return -1


def final_answer(reply: str) -> str:
    r"""Returns the one answer in a model's reply, for environments that take one short answer.

    Thoughts and text behind end marks are left out. An answer that is marked (`\boxed{7}`, "Answer:
    7", "The answer is 7.", `<answer>7</answer>`, "#### 7") is taken, else the whole reply without
    the marks around it. So a caller that parses the result accounts for the whole reply.

    Raises:
        NotUnderstood: if different answers are marked, or the reply is too long.
    """
    if len(reply) > LONGEST:
        raise NotUnderstood(f"An answer has at most {LONGEST:,} characters, got {len(reply):,}.")
    start, stop = find_reply(reply)
    text = reply[start:stop]
    thought = text.rfind("</think>")
    text = text[thought + len("</think>") :] if thought >= 0 else text.partition("<think>")[0]
    text = normalized(text).replace("\r\n", "\n").strip()
    marked = list(dict.fromkeys(answer for answer in find_answer_text(text) if answer))
    if len({answer.casefold() for answer in marked}) > 1:
        shown = ", ".join(repr(answer[:40]) for answer in marked[:3])
        raise NotUnderstood(f"Expected one answer, got {shown}.")
    if marked:
        return marked[0]
    fences = _FENCE.findall(text)
    if len(fences) == 1 and _FENCE.fullmatch(text):
        text = fences[0]
    return undecorated(text)
