"""Telecom: technical support of a mobile network operator, whose user holds the phone."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from agentgym.envs.service.arguments import Keys
from agentgym.envs.service.caller import (
    Caller,
    CallerState,
    ScriptedCaller,
    first_words,
    questions,
)
from agentgym.envs.service.database import Record, Tables, copied
from agentgym.envs.service.desk import DeskState
from agentgym.envs.service.device_lines import ALONE, PHONE, device_line
from agentgym.envs.service.instructions import read_instructions
from agentgym.envs.service.phone import (
    APN,
    CHANGES,
    CHECKS,
    DIAGNOSIS,
    FAULTS,
    MMS_ADDRESS,
    PAY,
    SIM,
    Network,
    Phone,
    faults,
)
from agentgym.envs.service.telecom_tasks import TelecomCase, telecom_case
from agentgym.envs.service.telecom_tools import TelecomTools
from agentgym.envs.service.telecom_world import TODAY, operator, operator_keys
from agentgym.envs.service.user import reveals
from agentgym.tools import Call, Tool

CHANGE_KINDS = {
    "refuel_data": "data",
    "send_payment_request": "bill",
    "resume_line": "free",
    "enable_roaming": "free",
}
"""Tools that change the database, and the kinds of changes to which the user agrees."""
_USES_OF_PHONE = 5
"""Uses of the phone per message of a user that is a model or a function."""


@dataclass(kw_only=True)
class TelecomState(DeskState):
    """State of a conversation: in addition, the user's phone and the scripted user."""

    phone: Phone = field(default_factory=Phone)
    caller: CallerState = field(default_factory=CallerState)


class Telecom(TelecomTools):
    """Repair the mobile service of a user who alone can see and change the phone.

    ## Description
    A user writes that there is no signal, no mobile data, slow data or no picture messages. The
    causes lie in the operator's database, which only the agent can see and change with tools (a
    suspended line, roaming, used-up data), and in the phone, which only the user can see and change
    (switches, SIM card, access point, permissions). The agent asks for facts and checks, makes
    changes with tools, and instructs the user. The scripted user carries out the instructions of a
    message in order, asks about the ones that are not clear (such as those under a condition), pays
    bills, may not know the phone number, has one of four moods, and loses patience after three to
    five needless changes. Some problems only a human agent can solve.

    ## Action Space
    Text, one of:

    - a tool call, such as `{"name": "get_line", "arguments": {"line_id": "L2000"}}`, in any of the
      formats of `agentgym.tools.CallFormat`.
    - a message to the user: any other text of at most 4,000 characters.

    ## Observation Space
    Text: the result of the call, or the user's reply. The state of the phone is hidden: the agent
    learns of it only through the user's reports.

    ## Rewards
    1 (term `task`) at the end if the problem is solved, or was transferred if only a human agent
    can solve it, the changes of the database are exactly the expected ones, and the policy was
    kept. Else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    The generated operator has 160 customers with two lines each. The task name determines the
    customer, the line, the problem, its causes and settings that do no harm. One customer in four
    occurs only in test tasks.

    ## Episode End
    Termination: the user finds that the problem is solved or loses patience, or the agent calls
    `transfer_to_human_agents`. Truncation: after `max_turns` turns.

    ## Information
    The common keys, and 1 or 0 for `database`, `solved` and `policy`, the three factors of the
    reward, at the end of the episode. `progress` is the fraction of the causes that are repaired.
    `admissible` is empty. `state_key` identifies the state, and the calls, messages and results
    whatever their order.

    ## Arguments
    - `causes` (int or None, default None): causes per task, 1 to 3. None samples it.
    - `user` (str or callable, default "scripted"): "scripted", "chat:MODEL@URL" (a chat model that
      receives the facts as its instruction) or a function (instruction, conversation) -> message.
      These users use the phone with messages such as "PHONE: check the status bar", which the agent
      does not see. Only the scripted user checks the policy.
    - `world` (int, default 0): seed of the generated operator.
    - `call_format` (str, default "json"): format of calls in the instructions and in the expert's
      actions: "json", "tool_call" (Qwen, Hermes), "llama_call" or "python".
    - `max_turns` (int or None, default 50): turn limit.

    ## References
    Dual control of the telecom domain of tau2-bench (arXiv 2506.07982). Tools, phone, data and
    policy are our own. There, the user is a language model with tools.

    ## Version History
    v0: first version.
    """

    policy = (
        f"You are the support agent of a mobile network operator. It is {TODAY}. Policy:\n"
        "- Identify the customer first: by the phone number, or by name and date of birth. Find "
        "out which line has the problem (a customer has two lines with different devices).\n"
        "- Before you change the database, describe the change and ask the user to confirm: the "
        "amount of a payment request, the gigabytes and the price of further data. Every change "
        "needs a confirmation of its own.\n"
        "- Only the user can see and change the phone. Give one instruction per message, in these "
        f"words: {', '.join(CHECKS)}, {', '.join(CHANGES)}.\n"
        "- Check before you change. The user loses patience after some changes that repair "
        "nothing.\n"
        "- No signal: the line is suspended, the phone is in airplane mode, or the SIM card is "
        "loose. A line is suspended because of overdue bills or the end of its contract. Resume it "
        "when all its overdue bills are paid: send a payment request for each and let the user "
        "pay. Then let the user restart the phone. Never resume a line whose contract has ended.\n"
        "- No mobile data: the causes of no signal, mobile data is off, the APN is wrong, the data "
        "of the plan is used up, or, abroad, roaming is off on the phone or not enabled for the "
        "line. Sell as many gigabytes as the user wants.\n"
        f"- The right APN is {APN} with the MMS address {MMS_ADDRESS}. After a reset, the phone "
        "must be restarted.\n"
        "- Slow mobile data: data saver or a VPN is on, or the network mode is not automatic.\n"
        "- No picture messages: the causes of no mobile data, the network mode is not automatic, "
        "the messaging app has no permissions, or Wi-Fi calling is on.\n"
        "- At the end, ask the user if it works now.\n"
        "- Transfer to a human agent if the contract has ended, the SIM card is locked, or the "
        "data is used up and the user does not want to pay for more. Find the cause first."
    )
    State = TelecomState
    state: TelecomState  # type: ignore[assignment]
    scoring = (
        "The reward is 1 if the problem is solved, or transferred where the policy demands it, and "
        "the database has no other changes than it needs."
    )
    factors = ("database", "solved", "policy")

    def __init__(self, *, causes: int | None = None, max_turns: int | None = 50, **kwargs):
        if causes is not None and not 1 <= causes <= 3:
            raise ValueError(f"causes must be None or 1 to 3, got {causes}.")
        self.causes = causes
        super().__init__(max_turns=max_turns, **kwargs)

    def _world(self) -> Tables:
        return operator(self.world)

    def _keys(self) -> Keys:
        return operator_keys(self.world)

    def _case(self, task: str) -> TelecomCase:
        return telecom_case(self.world, task, self.causes)

    @property
    def caller(self) -> Caller:
        """The user of the task."""
        return self._case(self.task).caller

    def _opening(self) -> TelecomState:
        caller = self.caller
        return TelecomState(changes=copied(caller.changes), phone=replace(caller.phone))

    # The phone and the user.

    @property
    def network(self) -> Network:
        """The state of the user's line in the network."""
        line = self.database.find("lines", self.caller.line)
        assert line is not None
        plan = self.database.find("plans", line["plan_id"])
        assert plan is not None
        left = plan["data_limit_gb"] + line["data_refueled_gb"] - line["data_used_gb"]
        return Network(line["status"] == "active", line["roaming_enabled"], left > 0)

    def _pay(self) -> int:
        """Pays the bills with a payment request. Returns their number."""
        self._known = None
        bills = self.state.changes.get("bills", {}).values()
        requested = [bill for bill in bills if bill["status"] == "requested"]
        for bill in requested:
            bill["status"] = "paid"
        return len(requested)

    def _replay(self, call: Call) -> None:
        if call.name == PAY:
            self._pay()
        else:
            super()._replay(call)

    def _scripted(self, message: str, turns: int) -> tuple[str, bool]:
        if not message:
            return first_words(self.caller), False
        found = self._user().reply(message)
        return found.text, found.confirmed

    def _run(self, offered: Tool, arguments: dict[str, Any]) -> Any:
        result, agreed = super()._run(offered, arguments), self.state.caller.agreed
        kind = CHANGE_KINDS.get(offered.name)
        if kind and agreed is not None:
            self._keep("describe the change that the user confirms", kind in agreed)
        return result

    def _before_reply(self) -> TelecomState:
        state = self.state
        return replace(
            state,
            changes=copied(state.changes),
            phone=replace(state.phone),
            caller=copy.deepcopy(state.caller),
        )

    def _understand(self, message: str, said: str) -> None:
        self.state.caller.agreed = None
        told, facts = self.state.caller.told, self.caller.facts
        for subject in questions(message):
            if subject not in told and reveals(facts.get(subject, ""), said, True):
                told.append(subject)

    def _user(self) -> ScriptedCaller:
        """Returns the user, whose replies update the state."""
        state = self.state
        return ScriptedCaller(self.caller, state.caller, state.phone, self.network, self._pay)

    def _user_message(self, message: str, conversation: list[list[str]]) -> tuple[str, bool]:
        answer = super()._user_message(message, conversation)
        if self.user == "scripted":
            return answer
        for _ in range(_USES_OF_PHONE):
            report = self.use_device(answer[0])
            if report is None:
                break
            # The user's side of the conversation: the agent sees the last message alone.
            conversation += [["user", answer[0]], ["phone", report]]
            answer = super()._user_message(message, conversation)
        return answer[0].removeprefix(PHONE), answer[1]

    def use_device(self, words: str) -> str | None:
        """Does what a line such as "PHONE: check the status bar" says, and returns the report.

        None: the words are a message to the agent.
        """
        line = device_line(words)
        if not line:
            return line if line is None else ALONE
        found = read_instructions(line)
        if not found.clear or found.clear != [action for action, _ in found.steps]:
            return "The phone cannot do that."
        if len(found.clear) > 1:
            return "The phone does one thing at a time."
        return self._user().perform(found.clear[0])

    # The result.

    def _causes(self) -> list[str]:
        """Returns the causes that are not repaired."""
        return faults(self.state.phone, self.network, self.caller.symptom)

    def _changed(self) -> Any:
        return super()._changed(), self.state.phone, self.state.caller

    def _outcome(self) -> dict[str, bool]:
        transferred = not self.state.over
        solved = transferred if self.caller.lost else not self._causes()
        found = super()._outcome()
        return {"database": found["database"], "solved": solved, "policy": found["policy"]}

    def _violated(self) -> bool:
        lost, state = self.caller.lost, self.state
        if lost and not state.over:
            evidence = {
                "locked SIM": SIM in state.caller.done,
                "contract": Call("get_line", {"line_id": self.caller.line}).key in state.looked_up,
                "no money": "gigabytes" in state.caller.told,
            }
            self._keep("find the cause before a transfer", evidence[lost])
        return super()._violated()

    def _progress(self) -> float:
        return max(0.0, 1 - len(self._causes()) / self.caller.causes)

    # The expert, who knows only what the user and the tools have revealed.

    def _solve(self) -> Call | str | None:
        if self.state.over or self.user != "scripted":
            return None
        return next(self._steps(), None)

    def _steps(self) -> Iterator[Call | str]:
        """Yields the remaining steps in order. Only the first is played."""
        caller, state = self.caller, self.state
        told, records = state.caller.told, self._world().records
        line = self._record("lines", caller.line, "line")
        number, customer = line["phone_number"], records["customers"][caller.customer]
        known = number in caller.facts["number"]
        if "number" not in told:
            yield "What is your phone number?"
        if not state.customer and known:
            yield Call("find_customer_by_phone", {"phone_number": number})
        if not state.customer:
            if "name" not in told:
                yield "What are your name and your date of birth?"
            born = {"date_of_birth": customer["date_of_birth"]}
            yield Call("find_customer_by_name", {**customer["name"], **born})
        if not known and "device" not in told:
            yield "Which phone is it?"
        yield from self._new(Call("get_customer", {"customer_id": caller.customer}))
        for key in customer["lines"][: customer["lines"].index(caller.line) + 1]:
            yield from self._new(Call("get_line", {"line_id": key}))
        if line["status"] == "suspended":
            yield from self._reactivate(line)
        if caller.symptom in ("data", "messages"):
            yield from self._provide(line)
        yield from self._repair()
        yield "Does it work now?"

    def _new(self, call: Call) -> Iterator[Call]:
        """Yields a call that finds information, unless it was made."""
        if call.key not in self.state.looked_up:
            yield call

    def _agreed(self, call: Call, proposal: str) -> Call | str:
        """Returns a call that changes the database, or the question before it."""
        return call if self.state.confirmed else f"{proposal} Do you confirm (yes/no)?"

    def _transfer(self, reason: str) -> Call:
        return Call("transfer_to_human_agents", {"summary": reason})

    def _reactivate(self, line: Record) -> Iterator[Call | str]:
        """Yields the steps that make a suspended line active."""
        if line["contract_end"] < TODAY:
            yield self._transfer("The contract has ended.")
        yield from self._new(Call("get_bills", {"customer_id": self.caller.customer}))
        for key in self._record("customers", self.caller.customer, "customer")["bills"]:
            bill = self._record("bills", key, "bill")
            if bill["status"] == "overdue":
                request = Call("send_payment_request", {"bill_id": key})
                amount = f"${bill['amount']}"
                yield self._agreed(request, f"I will send a payment request of {amount}.")
            if bill["status"] == "requested":
                yield f"Please {PAY}."
        resume = Call("resume_line", {"line_id": line["line_id"]})
        yield self._agreed(resume, "I will resume your line.")

    def _provide(self, line: Record) -> Iterator[Call | str]:
        """Yields the steps that give a line roaming and data."""
        caller, told = self.caller, self.state.caller.told
        if "place" not in told:
            yield "Where are you?"
        if self.state.phone.abroad and not line["roaming_enabled"]:
            enable = Call("enable_roaming", {"line_id": caller.line})
            yield self._agreed(enable, "I will enable roaming for your line.")
        yield from self._new(Call("get_plan", {"plan_id": line["plan_id"]}))
        if not self.network.quota:
            if "gigabytes" not in told:
                yield "Your data is used up. How many gigabytes do you want to buy?"
            if not caller.gigabytes:
                yield self._transfer("The data is used up.")
            arguments = {"line_id": caller.line, "gigabytes": caller.gigabytes}
            proposal = f"I will sell you {caller.gigabytes} GB for {caller.price}."
            yield self._agreed(Call("refuel_data", arguments), proposal)

    def _repair(self) -> Iterator[Call | str]:
        """Yields the checks and changes of the phone."""
        state, symptom = self.state, self.caller.symptom
        present = [FAULTS[name] for name in self._causes()]
        for check in ("", *DIAGNOSIS[symptom]):
            if check and check not in state.caller.done:
                yield f"Please {check}."
            for fault in present:
                if fault.check == check:
                    change = fault.change
                    yield f"Please {change}." if change else self._transfer("The SIM is locked.")
