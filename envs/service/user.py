"""The scripted user: a deterministic state machine over the requests of a scenario."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from agentgym.tools import Call

STOP = "###STOP###"
"""End of the conversation, written by the user."""

CONFIRM = re.compile(
    r"\bconfirm|\bproceed\b|go ahead|shall i\b|yes or no|yes/no|"
    r"is (?:this|that) (?:correct|right|okay|ok|fine)|do you agree"
)
_MORE = re.compile(r"(?:any|some)thing else|else i can|further (?:help|questions|requests)")
_DONE = re.compile(
    r"\b(?:done|completed|successful(?:ly)?|(?:has|have) been|is now|are now|"
    r"cancelled|updated|processed|booked)\b"
)
DENIED = re.compile(
    r"\b(?:cannot|can't|can not|unable|not able|not possible|not allowed|won't|will not|"
    r"sorry(?! (?:to hear|for|about)))\b"
)
_ASKED: dict[str, re.Pattern[str]] = {
    "identity": re.compile(r"e-?mail|\bzip\b|your (?:full )?name|user ?id|identity|who you are"),
    "order": re.compile(r"order (?:id|number)|which order|reservation (?:id|number|code)|which re"),
    "reason": re.compile(r"reason|\bwhy\b"),
    "payment": re.compile(r"pay(?:ment|ing)?\b|refund|\bcard\b|paypal"),
    "address": re.compile(r"(?<!mail )address"),
    "items": re.compile(r"\bitems?\b|product|which one|option|variant|size|colou?r|details"),
    "trip": re.compile(r"date|when\b|where\b|flight|from which|destination|cabin|class"),
    "people": re.compile(r"passenger|travell?er|birth"),
    "bags": re.compile(r"\bbag|luggage|suitcase"),
    "insurance": re.compile(r"insurance"),
}
"""Subject of a question -> pattern in the agent's message."""
_ORDER = re.compile(r"#w\d+")
_CODE = re.compile(r"[\w.@#-]*[\d@_][\w.@-]*")


@dataclass(frozen=True)
class Request:
    """A request of the user, and how it is fulfilled.

    Attributes:
        opening: the first sentence about it.
        facts: subject of a question -> answer. A subject that is missing here is unknown.
        proposal: words that the agent must name before the user agrees, in lower case.
        calls: the calls that fulfil it. Empty if it is a question, or must be denied.
        outputs: texts that the agent must tell the user.
        correction: a sentence with which the user corrects the request at the first proposal.
        look_ups: the calls that find the needed facts, for the expert.
        summary: description of the change, for the expert.
        draft: description of the change before the correction, for the expert.
    """

    opening: str
    facts: dict[str, str] = field(default_factory=dict)
    proposal: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    outputs: tuple[str, ...] = ()
    correction: str = ""
    look_ups: tuple[Call, ...] = ()
    summary: str = ""
    draft: str = ""

    @property
    def refused(self) -> bool:
        """Whether the policy demands that the agent denies it."""
        return not self.calls and not self.outputs


@dataclass(frozen=True)
class Scenario:
    """The user of a task.

    Attributes:
        customer: key of the user's record.
        identity: answers to questions about the identity, in order: a user who forgot the email
            address gives name and zip code instead.
        find: the call that identifies the user, for the expert.
        mood: "polite", "curt", "chatty" or "angry".
        requests: the requests in order.
    """

    customer: str
    identity: str
    find: Call | None
    mood: str
    requests: tuple[Request, ...]


@dataclass
class UserState:
    """State of the scripted user.

    Attributes:
        at: index of the current request.
        told: subjects about which the user has answered, for the current request.
        identified: whether the user has told the identity.
        corrected: whether the current request has been corrected.
        agreed: whether the user has agreed to a proposal for the current request.
        misunderstood: number of messages in a row that the user did not understand.
        denied: indices of the requests that were rightly denied.
    """

    at: int = 0
    told: list[str] = field(default_factory=list)
    identified: bool = False
    corrected: bool = False
    agreed: bool = False
    misunderstood: int = 0
    denied: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reply:
    """A message of the user.

    Attributes:
        text: the message.
        confirmed: whether the user agrees to the agent's proposal.
    """

    text: str
    confirmed: bool = False


STYLES: dict[str, tuple[str, str, str, str]] = {
    "polite": ("Hello! {} Thank you.", "{}", "Yes, please go ahead.", "That is all. Thank you!"),
    "curt": ("{}", "{}", "Yes.", "No. Bye."),
    "chatty": (
        "Hi there, I hope you are having a good day. {} My neighbour told me that you could help.",
        "Sure, let me see. {}",
        "Yes, that sounds good to me, do it.",
        "No, that was everything. Have a lovely day!",
    ),
    "angry": (
        "I have been waiting for twenty minutes. {}",
        "Again? {}",
        "Yes, obviously.",
        "No. That took long enough.",
    ),
}
"""Mood -> opening, answer, agreement, farewell."""
MOODS = tuple(STYLES)


def draw_requests(
    rng: np.random.Generator,
    kinds: Sequence[Callable[[], Request | None]],
    count: int,
    subject: Callable[[Request], str],
) -> tuple[Request, ...]:
    """Returns random requests of different kinds about different subjects.

    Args:
        rng: random generator.
        kinds: functions that return a request, or None if none is possible.
        count: number of requests.
        subject: request -> its subject, such as the number of an order.
    """
    found: dict[str, Request] = {}
    for i in rng.permutation(len(kinds)).tolist():
        request = kinds[i]()
        if request is not None:
            found.setdefault(subject(request), request)
        if len(found) == count:
            break
    return tuple(found.values())


def first_message(scenario: Scenario) -> str:
    """Returns the message with which the user starts the conversation."""
    return STYLES[scenario.mood][0].format(scenario.requests[0].opening)


def reply(scenario: Scenario, user: UserState, message: str) -> Reply:
    """Returns the user's reply to a message of the agent, and updates the user's state."""
    _, answer, agreement, _ = STYLES[scenario.mood]
    text = message.lower()
    request = scenario.requests[user.at]
    asked = [subject for subject, pattern in _ASKED.items() if pattern.search(text)]
    question = "?" in text or "please" in text or "need" in text
    told = all(output.lower() in text.replace(",", "") for output in request.outputs)
    if CONFIRM.search(text) and (user.identified or "identity" not in asked):
        found = _judge_proposal(scenario, user, text)
        user.misunderstood = 0
        user.agreed = user.agreed or found is None
        return Reply(agreement, True) if found is None else Reply(answer.format(found))
    done = user.agreed and not question and _DONE.search(text)
    if _MORE.search(text) or (request.outputs and told) or done:
        return _next_request(scenario, user, text)
    if question and asked:
        user.misunderstood = 0
        return Reply(answer.format(_answers(scenario, user, asked)))
    if DENIED.search(text):
        return _next_request(scenario, user, text)
    user.misunderstood += 1
    if user.misunderstood > 4:
        return Reply(f"This does not help me. Goodbye. {STOP}")
    return Reply(f"I do not understand. {request.opening}")


def _judge_proposal(scenario: Scenario, user: UserState, text: str) -> str | None:
    """Returns None if the user agrees to a proposal, or the user's objection."""
    request = scenario.requests[user.at]
    if not request.calls:
        return f"I am not sure what you mean. {request.opening}"
    if request.correction and not user.corrected:
        user.corrected = True
        return f"Wait. {request.correction}"
    if any(order not in request.proposal for order in _ORDER.findall(text)):
        return f"No, that is another order. {request.opening}"
    if any(word not in text for word in request.proposal):
        return "Please tell me first all details of the change: numbers, address and payment."
    return None


def _answers(scenario: Scenario, user: UserState, asked: list[str]) -> str:
    """Returns the answers to the agent's questions."""
    request, found = scenario.requests[user.at], []
    for subject in asked:
        if subject == "identity":
            user.identified = True
            found.append(scenario.identity)
        elif subject in request.facts:
            if subject not in user.told:
                user.told.append(subject)
            found.append(request.facts[subject])
    if user.corrected and request.correction and found:
        found.append(request.correction)
    return " ".join(dict.fromkeys(found)) or "I do not know that. Can you look it up?"


def _next_request(scenario: Scenario, user: UserState, text: str) -> Reply:
    """Moves on to the next request, or ends the conversation, after a message of the agent."""
    refused = scenario.requests[user.at].refused and bool(DENIED.search(text))
    if refused and user.at not in user.denied:
        user.denied.append(user.at)
    if user.at + 1 == len(scenario.requests):
        return Reply(f"{STYLES[scenario.mood][3]} {STOP}")
    user.at, user.told, user.misunderstood = user.at + 1, [], 0
    user.corrected = user.agreed = False
    return Reply(f"There is something else. {scenario.requests[user.at].opening}")


# A user that is an agent and writes its own words.


def codes(text: str) -> set[str]:
    """Returns the numbers, codes and email addresses of a text, in lower case."""
    return {found.strip(".-") for found in _CODE.findall(text.lower())}


def agrees(message: str, words: str) -> bool:
    """Returns whether the user's words agree to a proposal in the agent's message."""
    return bool(CONFIRM.search(message.lower())) and words.lower().lstrip().startswith("yes")


def reveals(fact: str, said: str, asked: bool) -> bool:
    """Returns whether a user has told a fact.

    Args:
        fact: the fact.
        said: all messages of the user. They must hold the codes of the fact.
        asked: whether the agent has asked for it, which decides about a fact without codes.
    """
    needed = codes(fact)
    return needed <= codes(said) if needed else asked


def follow(scenario: Scenario, user: UserState, message: str, said: str) -> None:
    """Updates the state of the scripted user after a reply in other words than its own.

    The agent's message moves the conversation on, and the user's messages reveal the facts.

    Args:
        scenario: the user of the task.
        user: the state, which is updated.
        message: the agent's message. "" at the start of the conversation.
        said: all messages of the user, joined.
    """
    before = user.identified
    if message:
        reply(scenario, user, message)
    user.identified = before or reveals(scenario.identity, said, user.identified)
    facts = scenario.requests[user.at].facts.items()
    user.told = [name for name, fact in facts if reveals(fact, said, name in user.told)]
