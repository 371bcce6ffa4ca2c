"""The scripted user with a phone: answers questions, follows instructions and reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from agentgym.envs.service.database import Changes
from agentgym.envs.service.instructions import Instructions, plain_words, read_instructions
from agentgym.envs.service.messages import (
    amounts,
    asks_to_confirm,
    denies,
    find_clauses,
    without_polite,
)
from agentgym.envs.service.messages import questions as asked_parts
from agentgym.envs.service.phone import (
    AUTOMATIC,
    CHECKS,
    FAULTS,
    PAY,
    PERMIT,
    RESEAT,
    RESET,
    RESTART,
    Network,
    Phone,
    change,
    faults,
)
from agentgym.envs.service.user import STOP, STYLES, Reply
from agentgym.reading import Clause, exact, find_numbers

PATIENCE = {"polite": 4, "curt": 4, "chatty": 5, "angry": 3}
"""Mood -> number of needless changes after which the user ends the conversation."""
_ASKED: dict[str, re.Pattern[str]] = {
    "number": re.compile(
        r"(?:phone|mobile|cell) number|number of (?:the|your) (?:phone|line)|(?:your|what|which) "
        r"number"
    ),
    "name": re.compile(r"your (?:full |first |last )?name|birth|who you are|who am i|\bdob\b"),
    "device": re.compile(
        r"(?:which|what) (?:kind of )?(?:phone|device|line)\b|model|which of your|what device"
    ),
    "place": re.compile(r"\bwhere\b|abroad|travel|which country|location|on a trip"),
    "gigabytes": re.compile(r"how much (?:more )?data|how many (?:gb|gig)|\bbuy\b|refuel"),
}
_PROPOSAL = re.compile(
    r"(?P<data>refuel|gigabyte|\bgb\b|\dgb\b|\bgigs?\b)|(?P<bill>payment request)|"
    r"(?P<free>resum\w+|reactivat\w+|roaming)"
)
_GIGABYTES = re.compile(r"\s?(?:gb|gigs?|gigabytes?)\b")
_EACH = re.compile(r"\s?(?:per|each|/|a gigabyte|a gb)")
_SALE = re.compile(
    r"\b(?:sell\w*|refuel\w*|buy\w*|add\w*|purchas\w+|get|give|charg\w+|cost\w*|price|for)\b"
)
_WORKS = re.compile(r"\b(?:works?|working|solved|fixed|resolved)\b")
_TRY = re.compile(r"(?:any|some)thing else|else i can|try (?:it )?(?:again|now)")
_ASSENT = re.compile(
    r"\W*(?:yes|yep|yeah|sure|exactly|correct|right|please do|go ahead|do (?:it|that)|ok|okay)\b"
    r"[\w ,.!]{0,30}"
)
_DONE = {
    AUTOMATIC: "I set the network mode to automatic.",
    RESEAT: "I took the SIM card out and put it back in.",
    RESET: "I reset the APN settings. It says that I must restart the phone.",
    RESTART: "I restarted the phone.",
    PERMIT: "I granted the permissions.",
}
_COMPLAINTS = {
    "service": "There is still no signal.",
    "data": "There is still no mobile data.",
    "speed": "Mobile data is still slow.",
    "messages": "I still cannot send pictures.",
}


@dataclass(frozen=True)
class Caller:
    """The user of a task.

    Attributes:
        customer: key of the customer's record.
        line: key of the line with the problem.
        mood: one of `MOODS`.
        symptom: the problem, one of `SYMPTOMS`.
        opening: the first message.
        facts: subject of a question -> answer. A subject that is missing here is unknown.
        gigabytes: data that the user would buy. 0: none.
        price: price of these gigabytes, such as "$6".
        bills: amounts of the overdue bills, such as "$41".
        phone: the phone at the start.
        changes: the records in the operator's database that cause the problem.
        causes: number of causes at the start.
        lost: the cause, if only a human agent can solve the problem. Else "".
    """

    customer: str
    line: str
    mood: str
    symptom: str
    opening: str
    facts: dict[str, str]
    gigabytes: int
    price: str
    bills: tuple[str, ...]
    phone: Phone
    changes: Changes
    causes: int
    lost: str


@dataclass
class CallerState:
    """State of the user.

    Attributes:
        told: subjects about which the user has answered.
        done: checks and changes that the user has carried out.
        needless: number of changes that repaired nothing.
        misunderstood: number of messages in a row that the user did not understand.
        pending: actions about which the user has asked whether to carry them out.
        agreed: kinds of changes ("data", "bill", "free") to which the last reply agrees. None: the
            reply was in other words than the script's.
    """

    told: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    needless: int = 0
    misunderstood: int = 0
    agreed: list[str] | None = None
    pending: list[str] = field(default_factory=list)


def first_words(caller: Caller) -> str:
    """Returns the message with which the user starts the conversation."""
    return STYLES[caller.mood][0].format(caller.opening)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a reply.

    Attributes:
        text: the words.
        confirmed: whether they agree to a proposal.
        whole: whether they are in the caller's mood already.
    """

    text: str
    confirmed: bool = False
    whole: bool = False


@dataclass
class ScriptedCaller:
    """The caller during one message.

    Attributes:
        caller: the user of the task.
        state: the user's state, which replies update.
        phone: the user's phone, which replies update.
        network: the state of the line in the network.
        pay: pays all bills with a payment request and returns their number.
    """

    caller: Caller
    state: CallerState
    phone: Phone
    network: Network
    pay: Callable[[], int]

    def reply(self, message: str) -> Reply:
        """Returns the reply to a message of the agent, to all that it holds."""
        state, text = self.state, plain_words(message)
        misunderstood, pending = state.misunderstood, state.pending
        state.misunderstood, state.agreed, state.pending = 0, [], []
        read = read_instructions(message)
        if not read.steps and _ASSENT.fullmatch(text):
            read = Instructions(tuple((action, "do") for action in pending))
        parts = [
            self._agree(text, read),
            self._follow(read),
            self._answer(text, read),
            self._try(text),
        ]
        found = [part for part in parts if part is not None]
        if found:
            return self._joined(found)
        state.misunderstood = misunderstood + 1
        if misunderstood == 4:
            return Reply(f"This does not help me. Goodbye. {STOP}")
        if denies(text, ""):
            return self._say("Can somebody else help me?")
        return Reply(f"I do not understand. {self.caller.opening}")

    def _joined(self, found: list[_Part]) -> Reply:
        """Returns one reply of its parts. One that ends the conversation is the last."""
        kept: list[_Part] = []
        for part in found:
            kept.append(part)
            if STOP in part.text:
                break
        spoken = " ".join(part.text for part in kept)
        plain = kept[0].whole or STOP in spoken
        confirmed = any(part.confirmed for part in kept)
        return (
            Reply(spoken, confirmed) if plain else replace(self._say(spoken), confirmed=confirmed)
        )

    def perform(self, action: str) -> str:
        """Carries out a check or a change and returns the report about it."""
        state = self.state
        if action not in state.done:
            state.done.append(action)
        if action in CHECKS:
            return CHECKS[action](self.phone, self.network)
        if action == PAY:
            paid = self.pay()
            state.needless += not paid
            return "I paid the bill." if paid else "I have no payment request for a bill."
        causes = faults(self.phone, self.network, self.caller.symptom)
        state.needless += all(FAULTS[cause].change != action for cause in causes)
        changed = change(self.phone, self.network, action)
        if action in _DONE:
            return _DONE[action]
        _, position, name = action.split(" ", 2)
        subject = name[0].upper() + name[1:]
        return f"{subject} is {position} {'now' if changed else 'already'}."

    def _say(self, text: str) -> Reply:
        """Returns an answer in the mood of the caller."""
        return Reply(STYLES[self.caller.mood][1].format(text))

    def _agree(self, text: str, read: Instructions) -> _Part | None:
        """Returns the answer to a proposal, if the message is one. The first change decides."""
        if not asks_to_confirm(text):
            return None
        kinds: dict[str, list[Clause]] = {}
        for clause in find_clauses(without_polite(text)):
            if clause.negated or clause.conditional or clause.quoted or clause.replaced:
                continue
            for match in _PROPOSAL.finditer(clause.text):
                if not any(match[0] in text[a:b] for a, b in read.spans):
                    kinds.setdefault(str(match.lastgroup), []).append(clause)
        if not kinds:
            return None
        first = next(iter(kinds))
        if objection := self._objection(first, text, kinds):
            return _Part(objection)
        self.state.agreed = [kind for kind in kinds if not self._objection(kind, text, kinds)]
        return _Part(STYLES[self.caller.mood][2], confirmed=True, whole=True)

    def _objection(self, kind: str, text: str, kinds: Collection[str]) -> str:
        """Returns the objection to a proposal of a change in the database, or ""."""
        caller, text = self.caller, without_polite(text)
        bills = [value for bill in caller.bills if (value := exact(bill)) is not None]
        price = exact(caller.price)
        named = [number.value for number in amounts(text) if not _EACH.match(text, number.stop)]
        known = {*(bills if "bill" in kinds else ()), *((price,) if "data" in kinds else ())}
        if "bill" in kinds and set(bills) & set(named):
            known.add(sum(bills, Fraction()))
        wrong = any(amount not in known for amount in named)
        if kind == "data":
            if not caller.gigabytes:
                return "No, I do not want to pay for more data."
            if wrong or price not in named or _offered(text) != {caller.gigabytes}:
                return "How many gigabytes would I get, and how much would I pay?"
        if kind == "bill" and (wrong or not set(bills) & set(named)):
            return "How much is the bill?"
        return ""

    def _follow(self, read: Instructions) -> _Part | None:
        """Returns the reports about the instructions of a message, in order, if any.

        The user asks about the first one that is not clear and those behind it.
        """
        if not read.steps:
            return self._recall(read.past)
        reports: list[str] = []
        for at, (action, kind) in enumerate(read.steps):
            if kind == "after" and action in self.state.done:
                continue
            if kind != "do":
                reports.append(self._ask_about([action for action, _ in read.steps[at:]]))
                break
            reports.append(self.perform(action))
            if self.state.needless >= PATIENCE[self.caller.mood]:
                end = f"This changes nothing. I will ask somebody else. {STOP}"
                return _Part(" ".join([*reports, end]), whole=True)
        return _Part(" ".join(reports)) if reports else None

    def _ask_about(self, actions: list[str]) -> str:
        """Returns the question whether the user shall carry out actions."""
        if actions[0].startswith("?"):
            return f"Shall I turn {actions[0][2:]} on or off?"
        self.state.pending = [action for action in actions if not action.startswith("?")]
        return f"Shall I {', and then '.join(self.state.pending)} now?"

    def _recall(self, past: Sequence[str]) -> _Part | None:
        """Returns the answer to the question whether the user has done something."""
        if not past:
            return None
        done = all(action in self.state.done for action in past)
        return _Part("Yes, I have done that." if done else "No, I have not done that yet.")

    def _answer(self, text: str, read: Instructions) -> _Part | None:
        """Returns the answers to the questions of a message, if any."""
        asked = questions(text)
        if not asked:
            return None
        self.state.told += [subject for subject in asked if subject not in self.state.told]
        known = [self.caller.facts[subject] for subject in asked if subject in self.caller.facts]
        return _Part(" ".join(known) or "I do not know that.")

    def _try(self, text: str) -> _Part | None:
        """Returns whether the phone works, if a message asks for it."""
        if not (_TRY.search(text) or _WORKS.search(text)):
            return None
        asking = [
            clause
            for clause in find_clauses(asked_parts(text))
            if not (clause.conditional or clause.quoted)
        ]
        if not (_TRY.search(text) or any(_WORKS.search(clause.text) for clause in asking)):
            return None
        if faults(self.phone, self.network, self.caller.symptom):
            return _Part(_COMPLAINTS[self.caller.symptom])
        return _Part(f"It works now. {STYLES[self.caller.mood][3]} {STOP}", whole=True)


def questions(text: str) -> list[str]:
    """Returns the subjects of the questions in a message."""
    asking = asked_parts(text)
    return [subject for subject, pattern in _ASKED.items() if pattern.search(asking)]


def _offered(text: str) -> set[int | Fraction]:
    """Returns the gigabytes that a message offers for sale."""
    offers = [c for c in find_clauses(text) if _SALE.search(c.text) and not c.negated]
    return {
        number.value
        for number in find_numbers(text)
        if (number.unit == "gb" or _GIGABYTES.match(text, number.stop))
        and any(clause.start <= number.start < clause.stop for clause in offers)
    }
