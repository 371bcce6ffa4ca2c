"""`ServiceDesk`: the rules that all customer service environments share."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar

from agentgym.agents import View, make_agent
from agentgym.envs.service.arguments import Keys, read_value
from agentgym.envs.service.calculator import evaluate
from agentgym.envs.service.cases import Case
from agentgym.envs.service.database import Changes, Database, Record, Tables, copied
from agentgym.envs.service.messages import claims_value
from agentgym.envs.service.user import STOP, UserState, agrees
from agentgym.errors import ConfigError
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep
from agentgym.tools import Call, Tool, ToolEnv, ToolError, ToolState, tool

LONGEST_MESSAGE = 4000
GREETING = "Hello, how can I help you today?"
UserFunction = Callable[[str, list[list[str]]], str]
"""(instruction, conversation) -> the user's next message. It ends with "###STOP###" to stop. The
conversation is a list of [speaker, message], where speaker is "agent" or "user"."""


@dataclass(kw_only=True)
class DeskState(ToolState):
    """State of a conversation.

    Attributes:
        changes: changed records.
        user: state of the scripted user.
        conversation: [speaker, message] in order.
        customer: key of the identified customer, or "".
        confirmed: whether the user has agreed to the last proposal.
        looked_up: calls that found information, as text.
        written: calls that changed the database, as text.
        violations: violated rules of the policy.
        over: whether the conversation has ended.
        outcome: at the end, whether database, outputs and policy are right: 1 or 0 each.
    """

    changes: Changes = field(default_factory=dict)
    user: UserState = field(default_factory=UserState)
    conversation: list[list[str]] = field(default_factory=list)
    customer: str = ""
    confirmed: bool = False
    looked_up: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    over: bool = False
    outcome: dict[str, float] = field(default_factory=dict)


class ServiceDesk(ToolEnv):
    """Base class of customer service environments.

    An action is a tool call, or a message to the user. The conversation ends when the user ends it,
    or when the agent transfers the user to a human agent. The reward is 1 iff all `factors` are 1,
    such as whether the final database equals the expected one.

    A subclass defines the tools as methods, `policy`, `writes` and `private` (names of the tools
    that change the database, and of those that show data of customers), `_world`, `_case`,
    `_scripted` and `_violated`.

    Args:
        user: "scripted", "chat:MODEL@URL" (a chat model that receives the instruction of the user)
            or a function (see `UserFunction`).
        world: seed of the generated data.
        max_turns: turn limit.
        **kwargs: arguments of `ToolEnv`.
    """

    State = DeskState
    state: DeskState
    policy: ClassVar[str]
    writes: ClassVar[frozenset[str]]
    private: ClassVar[frozenset[str]] = frozenset()
    scoring: ClassVar[str] = (
        "The reward is 1 if the user's requests are handled as the policy demands: the right "
        "changes of the database, and the right answers."
    )
    factors: ClassVar[tuple[str, ...]] = ("database", "outputs", "policy")
    """The factors of the reward: 1 or 0 each."""
    words: str | None = None
    """The user's next message, if it is an agent (`two_player`). None: `user` writes it."""
    _found: tuple[str, Case] | None = None  # the last task, by name
    _known: tuple[Changes, str] | None = None
    """The changes, and the digest of the changed records. None after a change."""

    def __init__(
        self,
        *,
        user: str | Callable[..., str] = "scripted",
        world: int = 0,
        max_turns: int | None = 40,
        **kwargs,
    ):
        if isinstance(user, str) and user != "scripted" and not user.startswith("chat:"):
            raise ConfigError(
                f"user must be 'scripted', 'chat:MODEL@URL' or a function, got {user!r:.80}."
            )
        self.user, self.world = user, world
        self._model: Any = make_agent(user) if isinstance(user, str) and ":" in user else None
        super().__init__(max_turns=max_turns, **kwargs)
        self.tasks = Tasks.generated()

    # Implemented by a subclass.

    def _world(self) -> Tables:
        """Returns the initial tables. The result is cached."""
        raise NotImplementedError

    def _case(self, task: str) -> Case:
        """Returns a task. The result is cached."""
        raise NotImplementedError

    def _keys(self) -> Keys:
        """Returns the values of the arguments that are keys. The result is cached."""
        raise NotImplementedError

    def _scripted(self, message: str, turns: int) -> tuple[str, bool]:
        """Returns the scripted user's next message, and whether it agrees to a proposal.

        Args:
            message: the agent's message. "" at the start of the conversation.
            turns: number of messages so far.
        """
        raise NotImplementedError

    def _understand(self, message: str, said: str) -> None:
        """Updates the scripted user's state after a reply in other words than its own.

        Args:
            message: the agent's message. "" at the start of the conversation.
            said: all messages of the user, joined.
        """
        raise NotImplementedError

    def use_device(self, words: str) -> str | None:
        """Does what the user's words do with a device, and returns the report.

        None: the words are a message to the agent.
        """
        return None

    def _violated(self) -> bool:
        """Whether a rule of the policy was violated, with the scripted user."""
        return bool(self.state.violations)

    # The conversation.

    def _policy(self) -> str:
        """Returns the policy."""
        return self.policy

    def _rules(self) -> str:
        return (
            f"{self._policy()}\n\nYou talk with one user. Each answer is either a tool call or a "
            "message to the user, never both. The conversation ends when the user ends it, or when "
            f"you call transfer_to_human_agents. {self.scoring}"
        )

    @property
    def database(self) -> Database:
        """The database of the episode."""
        return Database(self._world(), self.state.changes)

    @property
    def case(self) -> Case:
        """The current task, which snapshots do not contain."""
        if self._found is None or self._found[0] != self.task:
            self._found = self.task, self._case(self.task)
        return self._found[1]

    def _opening(self) -> DeskState:
        """Returns the state before the first message."""
        return DeskState()

    def _begin(self, task: str) -> str:
        self.task = task
        self.state = self._opening()
        return self._user_turn(["agent", GREETING], "")

    def _user_turn(self, turn: list[str], message: str) -> str:
        """Adds the agent's turn and the user's reply to the conversation. Returns the reply."""
        state = self.state
        conversation = [*state.conversation, turn]
        answer, state.confirmed = self._user_message(message, conversation)
        state.over, answer = STOP in answer, answer.replace(STOP, "").strip()
        state.conversation = [*conversation, ["user", answer]]
        return answer

    def _user_message(self, message: str, conversation: list[list[str]]) -> tuple[str, bool]:
        """Returns the user's next message, and whether the user agrees to a proposal.

        Args:
            message: the agent's message. "" at the start of the conversation.
            conversation: all turns, the agent's message last.
        """
        case = self.case
        if self.words is not None:
            return self.words, self._hear(message, self.words)
        if self._model is not None:
            view = _user_view(case.instruction, conversation)
            return self._model.act([view])[0], False
        if not isinstance(self.user, str):
            return str(self.user(case.instruction, [list(turn) for turn in conversation])), False
        return self._scripted(message, len(conversation))

    def scripted_words(self, message: str) -> str:
        """Returns the scripted user's reply to a message, without changing the state."""
        state, self.state = self.state, self._before_reply()
        try:
            return self._scripted(message, len(state.conversation) + 1)[0]
        finally:
            self.state = state

    def _before_reply(self) -> DeskState:
        """Returns a copy of the state, deep only in the parts that the scripted user changes."""
        return dataclasses.replace(self.state, user=self.state.user.copied())

    def reopen(self) -> None:
        """Replaces the user's first message by `words`, at the start of an episode."""
        assert self._last is not None
        self.state.conversation = []
        text = self._user_turn(["agent", GREETING], "")
        self._last = dataclasses.replace(self._last, text=text)

    def _hear(self, message: str, words: str) -> bool:
        """Applies the effects of the words of a user that is an agent.

        The words of the script have the effects of the script.

        Returns:
            Whether the user agrees to a proposal.
        """
        if words == self.scripted_words(message):
            return self._scripted(message, len(self.state.conversation) + 1)[1]
        said = [text for who, text in self.state.conversation if who == "user"]
        self._understand(message, "\n".join([*said, words]))
        return agrees(message, words)

    def _message(self, text: str) -> TimeStep:
        text = text.strip()
        if not 0 < len(text) <= LONGEST_MESSAGE:
            return self._invalid(
                f"A message must have 1 to {LONGEST_MESSAGE:,} characters, got {len(text):,}."
            )
        answer = self._user_turn(["agent", text], text)
        self._note(f"{text}\n{answer}")
        return self._step(answer, over=self.state.over)

    def _call(self, call: Call) -> TimeStep:
        try:
            return super()._call(self._by_value(call))
        except ValueError as problem:  # an argument, since `super` catches those of tools
            return self._invalid(str(problem))

    def _by_value(self, call: Call) -> Call:
        """Returns a call whose arguments have the form of the database: see `read_value`."""
        if call.name not in self.tools:
            return call
        schemas = self.tools[call.name].parameters["properties"]
        return Call(
            call.name, read_value(call.arguments, {"properties": schemas}, "", self._keys())
        )

    def _run(self, offered: Tool, arguments: dict[str, Any]) -> Any:
        if offered.name in self.writes:
            self._known = None
        result = super()._run(offered, arguments)
        state, name = self.state, offered.name
        call = Call(name, arguments).key
        if name in self.writes | self.private:
            self._keep("identify the customer first", bool(state.customer))
        if name in self.writes:
            self._keep("obtain confirmation before a change", state.confirmed)
            state.confirmed = False
            state.written.append(call)
        elif call not in state.looked_up:
            state.looked_up.append(call)
        return result

    def _keep(self, rule: str, kept: bool) -> None:
        """Records a violated rule of the policy."""
        if not kept and rule not in self.state.violations:
            self.state.violations.append(rule)

    # The result.

    def _changed(self) -> Any:
        state = self.state
        if self._known is None or self._known[0] is not state.changes:
            difference = repr(sorted(self.database.difference().items()))
            self._known = state.changes, blake2b(difference.encode("utf-8", "replace")).hexdigest()
        return self._known[1], self.state.user, self.state.confirmed, sorted(self.state.violations)

    def _judge(self) -> float:
        self.state.outcome = {name: float(right) for name, right in self._outcome().items()}
        return float(all(self.state.outcome.values()))

    def _outcome(self) -> dict[str, bool]:
        """Returns the factors of the reward at the end."""
        case = self.case
        told = [message for who, message in self.state.conversation if who == "agent"]
        return {
            "database": self.database.equals(self._expected(case)),
            "outputs": all(any(self._tells(m, o) for m in told) for o in case.outputs),
            "policy": self.user != "scripted" or not self._violated(),
        }

    def _tells(self, message: str, output: str) -> bool:
        """Returns whether a message of the agent tells the user a required output."""
        return claims_value(message, output)

    def _expected(self, case: Case) -> Database:
        """Returns the expected database."""
        current = self.state
        self.state = self._opening()
        try:
            for call in case.calls:
                self._replay(call)
            return self.database
        finally:
            self.state = current

    def _replay(self, call: Call) -> None:
        """Makes a reference call. As in tau-bench, one that fails changes nothing."""
        offered = self.tools.get(call.name)
        if offered is not None and not offered.final:
            with contextlib.suppress(ToolError, LookupError, TypeError, ValueError):
                offered.function(self, **copied(call.arguments))

    def _info(self, step: TimeStep) -> dict[str, Any]:
        return {**super()._info(step), **dict.fromkeys(self.factors, 0.0), **self.state.outcome}

    # Tools of all desks.

    def _record(self, table: str, key: str, kind: str) -> Record:
        """Returns a record.

        Raises:
            ToolError: if there is none.
        """
        record = self.database.find(table, key)
        if record is None:
            raise ToolError(f"{kind} not found")
        return record

    @tool
    def calculate(self, expression: str) -> str:
        """Calculates the result of an expression.

        Args:
            expression: numbers, + - * / and parentheses, such as "(2 + 3) * 4".
        """
        return str(round(evaluate(expression), 2))

    @tool
    def think(self, thought: str) -> str:
        """Writes down a thought. It has no effect.

        Args:
            thought: the thought.
        """
        return ""

    @tool(final=True)
    def transfer_to_human_agents(self, summary: str) -> str:
        """Transfers the user to a human agent and ends the conversation.

        Args:
            summary: summary of the user's request.
        """
        return "Transfer successful"


def _user_view(instruction: str, conversation: list[list[str]]) -> View:
    """Returns the view of a chat model that plays the user."""
    rules = (
        "You are a customer who talks with a service agent. Write one short message per turn, in "
        "your own words. Reveal only what is necessary for the current step, and invent nothing. "
        f"When everything is settled, write {STOP}. Your situation: {instruction}"
    )
    messages = [text for _, text in conversation]
    history = list(zip(messages[::2], messages[1::2], strict=False))
    return View(
        instructions=rules,
        observation=messages[-1],
        info={},
        rng=task_rng(instruction, "user"),
        env=None,  # type: ignore[arg-type]
        history=[(asked, answered) for asked, answered in history],
    )
