"""The scripted user: a deterministic state machine over the requests of a scenario."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from agentgym.envs.service.database import plain_key
from agentgym.envs.service.judgement import judge
from agentgym.envs.service.messages import (
    asks_to_confirm,
    claims_value,
    denies,
    offers_more,
    plain,
    questions,
    reports_done,
)
from agentgym.envs.service.proposals import Proposal
from agentgym.reading.dates import find_dates
from agentgym.reading.typography import normalized
from agentgym.tools import Call

STOP = "###STOP###"
"""End of the conversation, written by the user."""

_ASKED: dict[str, re.Pattern[str]] = {
    "identity": re.compile(
        r"e-?mail|\bzip\b|postal code|your (?:full |first |last )?name|user ?(?:id|name)|identity|"
        r"identify|who you are|(?:authenticate|verify) you|who (?:am i|i am) (?:speak|talk|chat)ing"
    ),
    "order": re.compile(
        r"(?:order|reservation|booking|confirmation)(?:'s)? (?:id|number|no\b|code|reference)|"
        r"(?:which|what) (?:order|reservation|booking)|which re|record locator|\bpnr\b"
    ),
    "reason": re.compile(r"reason|\bwhy\b|what happened|how come|what made"),
    "payment": re.compile(r"pay(?:ment|ing)?\b|refund|\bcard\b|paypal|charge"),
    "address": re.compile(
        r"(?<!mail )address|where (?:should|shall|do|can|would).{0,30}(?:ship|sen[dt]|deliver)"
    ),
    "items": re.compile(r"\bitems?\b|product|which one|option|variant|size|colou?r|details"),
    "trip": re.compile(
        r"date|\bday\b|when\b|where\b|flight|from which|destination|cabin|class|itinerary"
    ),
    "people": re.compile(r"passenger|travell?er|birth|who (?:will|is going to|else|is) |\bdob\b"),
    "bags": re.compile(r"\bbag|luggage|suitcase"),
    "insurance": re.compile(r"insur"),
}
"""Subject of a question -> pattern in the questions of the agent's message."""
_CODE = re.compile(r"[\w.@#-]*[\d@_][\w.@-]*")


@dataclass(frozen=True)
class Request:
    """A request of the user, and how it is fulfilled.

    Attributes:
        opening: the first sentence about it.
        facts: subject of a question -> answer. A subject that is missing here is unknown.
        proposal: the values that the agent must name before the user agrees.
        calls: the calls that fulfil it. Empty if it is a question, or must be denied.
        outputs: texts that the agent must tell the user.
        correction: a sentence with which the user corrects the request at the first proposal.
        look_ups: the calls that find the needed facts, for the expert.
        summary: description of the change, for the expert.
        draft: description of the change before the correction, for the expert.
    """

    opening: str
    facts: dict[str, str] = field(default_factory=dict)
    proposal: Proposal = field(default_factory=Proposal)
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

    @cached_property
    def look_up_keys(self) -> tuple[str, ...]:
        """The calls that find the needed facts, as text."""
        return tuple(call.key for call in self.look_ups)

    @cached_property
    def call_keys(self) -> tuple[str, ...]:
        """The calls that fulfil it, as text."""
        return tuple(call.key for call in self.calls)

    @cached_property
    def record(self) -> str:
        """The call that looks up the order or reservation, as text, or ""."""
        return self.look_up_keys[-1] if self.look_ups else ""

    @cached_property
    def key(self) -> str:
        """The number of the order or reservation, or ""."""
        arguments = [*self.look_ups[-1].arguments.values()] if self.look_ups else []
        return str(arguments[0]) if len(arguments) == 1 else ""


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

    def copied(self) -> UserState:
        """Returns a copy that shares nothing that changes."""
        return replace(self, told=[*self.told], denied=[*self.denied])


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


def reply(
    scenario: Scenario, user: UserState, message: str, looked_up: Collection[str] = ()
) -> Reply:
    """Returns the user's reply to a message of the agent, and updates the user's state.

    Args:
        scenario: the user of the task.
        user: the state, which is updated.
        message: the agent's message.
        looked_up: the calls of the agent that found information, as text. A request is denied only
            after its order or reservation was looked up.
    """
    _, answer, agreement, _ = STYLES[scenario.mood]
    text, request = plain(message), scenario.requests[user.at]
    decided = request.refused and request.record in looked_up
    if decided and denies(text, request.proposal.topic, request.key):
        user.denied.append(user.at)
        return _next_request(scenario, user)
    told = request.outputs and all(claims_value(text, output) for output in request.outputs)
    known = user.identified or "identity" not in _subjects(questions(text))
    if not told and known and asks_to_confirm(text):
        found = _judge_proposal(scenario, user, text)
        user.misunderstood = 0
        user.agreed = user.agreed or found is None
        return Reply(agreement, True) if found is None else Reply(answer.format(found))
    asking = questions(text)
    if told or offers_more(text) or (user.agreed and not asking and reports_done(text)):
        return _next_request(scenario, user)
    if asked := _subjects(asking):
        user.misunderstood = 0
        return Reply(answer.format(_answers(scenario, user, asked)))
    if not decided and denies(text, request.proposal.topic, request.key):
        return _next_request(scenario, user)
    user.misunderstood += 1
    if user.misunderstood > 4:
        return Reply(f"This does not help me. Goodbye. {STOP}")
    return Reply(f"I do not understand. {request.opening}")


@lru_cache(maxsize=1024)
def _subjects(asking: str) -> tuple[str, ...]:
    """Returns the subjects of the questions of a message."""
    return tuple(subject for subject, form in _ASKED.items() if form.search(asking))


def _judge_proposal(scenario: Scenario, user: UserState, text: str) -> str | None:
    """Returns None if the user agrees to a proposal, or the user's objection."""
    request = scenario.requests[user.at]
    if not request.calls:
        return f"I am not sure what you mean. {request.opening}"
    if request.correction and not user.corrected:
        user.corrected = True
        return f"Wait. {request.correction}"
    verdict = judge(request.proposal, text)
    if not verdict:
        return None
    if verdict.kind == "missing":
        return "Please tell me first all details of the change: numbers, address and payment."
    if verdict.kind == "order":
        return f"No, that is another order. {request.opening}"
    return f"No, {verdict.shown!r} is not right. {request.opening} {_told(request, user)}".strip()


def _told(request: Request, user: UserState) -> str:
    """Returns the facts that the user has told, and the correction, as one text."""
    facts = [request.facts[subject] for subject in user.told]
    return " ".join([*facts, *[request.correction] * user.corrected]).strip()


def _answers(scenario: Scenario, user: UserState, asked: Collection[str]) -> str:
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


def _next_request(scenario: Scenario, user: UserState) -> Reply:
    """Moves on to the next request, or ends the conversation."""
    if user.at + 1 == len(scenario.requests):
        return Reply(f"{STYLES[scenario.mood][3]} {STOP}")
    user.at, user.told, user.misunderstood = user.at + 1, [], 0
    user.corrected = user.agreed = False
    return Reply(f"There is something else. {scenario.requests[user.at].opening}")


# A user that is an agent and writes its own words.


@lru_cache(maxsize=1024)
def codes(text: str) -> frozenset[str]:
    """Returns the numbers, codes, dates and email addresses of a text, by value."""
    text = normalized(text).lower()
    text = re.sub(r"(?<=\d),(?=\d{3}\b)|(?<=\d)\.0{1,2}\b", "", text)
    found = set()
    for date in reversed(find_dates(text)):
        text = f"{text[: date.start]} {text[date.stop :]}"
        found |= {f"{date.year}{date.month:02}{date.day:02}"} if date.year else set()
    return frozenset(found.union(map(plain_key, _CODE.findall(text))))


def agrees(message: str, words: str) -> bool:
    """Returns whether the user's words agree to a proposal in the agent's message."""
    text = normalized(words).lower().strip(" \t\n\"'*")
    starts = re.match(r"yes\b", text) is not None
    return asks_to_confirm(plain(message)) and starts and not _TAKEN_BACK.search(text)


_TAKEN_BACK = re.compile(
    r"\b(?:do not|don't|not yet|wait|stop|no, |but no\b|not (?:the|that|this))"
)


def reveals(fact: str, said: str, asked: bool) -> bool:
    """Returns whether a user has told a fact.

    Args:
        fact: the fact.
        said: all messages of the user. They must hold the codes of the fact.
        asked: whether the agent has asked for it, which decides about a fact without codes.
    """
    needed = codes(fact)
    return needed <= codes(said) if needed else asked


def follow(
    scenario: Scenario, user: UserState, message: str, said: str, looked_up: Collection[str] = ()
) -> None:
    """Updates the state of the scripted user after a reply in other words than its own.

    The agent's message moves the conversation on, and the user's messages reveal the facts.

    Args:
        scenario: the user of the task.
        user: the state, which is updated.
        message: the agent's message. "" at the start of the conversation.
        said: all messages of the user, joined.
        looked_up: see `reply`.
    """
    before = user.identified
    if message:
        reply(scenario, user, message, looked_up)
    user.identified = before or reveals(scenario.identity, said, user.identified)
    facts = scenario.requests[user.at].facts.items()
    user.told = [name for name, fact in facts if reveals(fact, said, name in user.told)]
