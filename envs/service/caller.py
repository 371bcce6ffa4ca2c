"""The scripted user with a phone: answers questions, follows instructions and reports."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from agentgym.envs.service.database import Changes
from agentgym.envs.service.phone import (
    ACCESS,
    AUTOMATIC,
    CALLS,
    CHANGES,
    CHECKS,
    FAULTS,
    MESSAGING,
    NETWORK,
    PAY,
    PERMIT,
    RESEAT,
    RESET,
    RESTART,
    SIM,
    STATUS,
    SWITCHES,
    Network,
    Phone,
    change,
    faults,
    switch,
)
from agentgym.envs.service.user import CONFIRM, DENIED, STOP, STYLES, Reply

PATIENCE = {"polite": 4, "curt": 4, "chatty": 5, "angry": 3}
"""Mood -> number of needless changes after which the user ends the conversation."""
_NAMES = {
    "airplane mode": "(?:airplane|flight) mode",
    "mobile data": "(?:mobile|cellular) data",
    "data roaming": "(?:data )?roaming",
    "data saver": "data saver",
    "the VPN": "vpn",
    "Wi-Fi calling": "wi-?fi calling",
}
_NEAR = "[^.?!]{0,40}"
_LOOK = rf"\b(?:check|look|open|read|see|view|tell|what|which){_NEAR}\b"


def _switch_pattern(name: str, on: bool) -> str:
    noun = f"(?:the |your )?{_NAMES[name]}"
    state = "on" if on else "off"
    verbs = r"\b(?:enable|activate)" if on else r"\b(?:disable|deactivate|disconnect)"
    return rf"\b(?:turn|switch) {state} {noun}|\b(?:turn|switch) {noun} {state}|{verbs} {noun}"


_PATTERNS: dict[str, str] = {
    **{switch(name, on): _switch_pattern(name, on) for name in SWITCHES for on in (True, False)},
    AUTOMATIC: rf"\b(?:set|change|switch){_NEAR}network mode{_NEAR}automatic",
    RESEAT: rf"\b(?:take|remove|eject){_NEAR}\bsim\b|\bre-?(?:seat|insert){_NEAR}\bsim\b",
    RESET: rf"\breset{_NEAR}\bapn\b",
    RESTART: rf"\b(?:restart|reboot){_NEAR}\b(?:phone|device|it)\b",
    PERMIT: rf"\b(?:grant|allow|give){_NEAR}\bpermission",
    PAY: rf"\bpay\b{_NEAR}\bbill|\baccept{_NEAR}\bpayment",
    STATUS: rf"{_LOOK}status bar",
    SIM: rf"{_LOOK}sim\b",
    NETWORK: rf"{_LOOK}network settings",
    ACCESS: rf"{_LOOK}apn\b",
    MESSAGING: rf"{_LOOK}messaging app",
    CALLS: rf"{_LOOK}call settings",
    "run a speed test": r"\bspeed test",
}
_ACTIONS = (*_PATTERNS,)
assert {*CHANGES, *CHECKS} == {*_ACTIONS}
_ACTION = re.compile("|".join(f"(?P<a{i}>{_PATTERNS[a]})" for i, a in enumerate(_ACTIONS)))
_ASKED: dict[str, re.Pattern[str]] = {
    "number": re.compile(r"phone number|number of (?:the|your) (?:phone|line)|your number"),
    "name": re.compile(r"your (?:full )?name|birth|who you are"),
    "device": re.compile(r"which (?:phone|device|line)|model|which of your"),
    "place": re.compile(r"\bwhere\b|abroad|travel|which country|location"),
    "gigabytes": re.compile(r"how much (?:more )?data|how many (?:gb|gigabytes)|buy|refuel"),
}
_PROPOSAL = re.compile(
    r"(?P<data>refuel|gigabyte|\bgb\b)|(?P<bill>payment request)|"
    r"(?P<free>resume|reactivate|roaming)"
)
_WORKS = re.compile(
    r"\b(?:works?|working|solved|fixed|resolved)\b|(?:any|some)thing else|else i can|try again"
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
        agreed: kinds of changes ("data", "bill", "free") to which the last reply agrees. None: the
            reply was in other words than the script's.
    """

    told: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    needless: int = 0
    misunderstood: int = 0
    agreed: list[str] | None = None


def first_words(caller: Caller) -> str:
    """Returns the message with which the user starts the conversation."""
    return STYLES[caller.mood][0].format(caller.opening)


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
        """Returns the reply to a message of the agent."""
        text, misunderstood = message.lower(), self.state.misunderstood
        self.state.misunderstood, self.state.agreed = 0, []
        for understand in (self._agree, self._follow, self._answer, self._try):
            if (found := understand(text)) is not None:
                return found
        self.state.misunderstood = misunderstood + 1
        if misunderstood == 4:
            return Reply(f"This does not help me. Goodbye. {STOP}")
        if DENIED.search(text):
            return self._say("Can somebody else help me?")
        return Reply(f"I do not understand. {self.caller.opening}")

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

    def _agree(self, text: str) -> Reply | None:
        """Returns the answer to a proposal, if the message is one. The first change decides."""
        kinds = list(dict.fromkeys(str(m.lastgroup) for m in _PROPOSAL.finditer(text)))
        if not kinds or not CONFIRM.search(text):
            return None
        if objection := self._objection(kinds[0], text):
            return self._say(objection)
        self.state.agreed = [kind for kind in kinds if not self._objection(kind, text)]
        return Reply(STYLES[self.caller.mood][2], True)

    def _objection(self, kind: str, text: str) -> str:
        """Returns the objection to a proposal of a change in the database, or ""."""
        caller = self.caller
        if kind == "data":
            if not caller.gigabytes:
                return "No, I do not want to pay for more data."
            if f"{caller.gigabytes} g" not in text or not _named(caller.price, text):
                return "How many gigabytes would I get, and how much would I pay?"
        if kind == "bill" and not any(_named(bill, text) for bill in caller.bills):
            return "How much is the bill?"
        return ""

    def _follow(self, text: str) -> Reply | None:
        """Returns the report about the first instruction of a message, if any."""
        actions = instructions(text)
        if not actions:
            return None
        report = self.perform(actions[0])
        if self.state.needless >= PATIENCE[self.caller.mood]:
            return Reply(f"{report} This changes nothing. I will ask somebody else. {STOP}")
        return self._say(report + " One thing at a time, please." * (len(actions) > 1))

    def _answer(self, text: str) -> Reply | None:
        """Returns the answers to the questions of a message, if any."""
        asked = questions(text)
        if not asked:
            return None
        self.state.told += [subject for subject in asked if subject not in self.state.told]
        known = [self.caller.facts[subject] for subject in asked if subject in self.caller.facts]
        return self._say(" ".join(known) or "I do not know that.")

    def _try(self, text: str) -> Reply | None:
        """Returns whether the phone works, if a message asks for it."""
        if not _WORKS.search(text):
            return None
        if faults(self.phone, self.network, self.caller.symptom):
            return self._say(_COMPLAINTS[self.caller.symptom])
        return Reply(f"It works now. {STYLES[self.caller.mood][3]} {STOP}")


def questions(text: str) -> list[str]:
    """Returns the subjects of the questions in a message in lower case."""
    return [subject for subject, pattern in _ASKED.items() if pattern.search(text)]


def instructions(text: str) -> list[str]:
    """Returns the checks and changes that a message in lower case asks for, in its order."""
    found = [_ACTIONS[int(str(match.lastgroup)[1:])] for match in _ACTION.finditer(text)]
    return list(dict.fromkeys(found))


def _named(amount: str, text: str) -> bool:
    """Whether an amount such as "$6" occurs in a text, and not only as a part of another one."""
    return re.search(rf"{re.escape(amount)}(?![0-9]|[.,][0-9]*[1-9])", text) is not None
