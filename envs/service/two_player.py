"""Customer service for two: the user is an agent, too."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.envs.service.desk import GREETING, LONGEST_MESSAGE, ServiceDesk
from agentgym.envs.service.user import STOP, codes
from agentgym.errors import ConfigError
from agentgym.multiagent.env_game import EnvGame, EnvGameState
from agentgym.multiagent.episode import GameEpisode
from agentgym.multiagent.messages import clip, spoken
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards
from agentgym.reading import normalized
from agentgym.registration.making import env_name, make_inner
from agentgym.time_step import TimeStep
from agentgym.tools.calls import message_of

AGENT, USER = "player_0", "player_1"
MOST_USES = 5
"""Uses of a device per message of the user."""
_GAP = re.compile(r"(?<=\d)[ .)-]{1,2}(?=\d)")
"""Between groups of digits: "555 011 234"."""
SHORTEST_CODE = 3
"""Number of characters from which on a number or code can be invented."""
QUESTION = "Is there anything else?"
MESSAGES = (
    "Please tell me your name.",
    "What is the reason?",
    "Do you confirm (yes/no)?",
    QUESTION,
)
"""The messages of the random service agent."""


@dataclass(kw_only=True)
class State(EnvGameState):
    """The state of the conversation beside that of the environment.

    Attributes:
        opened: whether the user has written its first message.
        message: the service agent's message that waits for a reply, or "".
        reports: all reports of the user's device.
        uses: number of uses of the device since the service agent's message.
    """

    opened: bool = False
    message: str = ""
    reports: list[str] = field(default_factory=list)
    uses: int = 0


class ServiceTwoPlayer(EnvGame):
    """A service agent with tools and a user with a problem, as two agents.

    ## Description
    The game of a customer service environment with an agent in place of the scripted user.

    - player_0, the agent, has the policy and the tools. Its observations and rewards are those of
      the environment.
    - player_1, the user, knows its situation: requests, facts and mood. It opens the conversation
      and answers each message of the agent. It does not see the policy and the calls of tools.

    With the scripted user, the episode equals that of the single-agent environment. A user can also
    choose its own words. It agrees to a proposal with a message that begins with Yes, and a fact
    counts as told when the numbers, dates and codes in it have been written, in any form. So the
    policy of the agent is checked, and the scripted agent understands any user.

    ## Action Space
    Text:

    - Agent: a tool call or a message to the user, as in the environment.
    - User: a message of at most 4,000 characters. One with `###STOP###`, which cannot be the first,
      ends the conversation. In Telecom, a line such as `PHONE: check the status bar` uses the
      phone, at most five times per message.

    ## Observation Space
    Text:

    - Agent: the observation of the environment, which is the result of a call or the user's reply.
    - User: its situation, the agent's message, put on one line, and the reports of its phone since
      then.

    ## Rewards
    - `task`: that of the environment, for both: 1 at the end if the conversation is a success.
    - `cost`: for the agent, the cost of tools. For the user, minus `invention_cost` for a message
      in its own words with a number or code of three or more characters that is neither in its
      situation nor was told by the agent or the phone.
    - `invalid`: minus `invalid_penalty` for an agent's own invalid action.

    ## Starting State
    The start of an episode of the environment, whose tasks are those of the game. The user acts
    first.

    ## Episode End
    - Termination: the user ends the conversation, or the agent calls `transfer_to_human_agents`.
    - Truncation: after the turn limit of the environment, which counts actions of the agent, or
      after `max_turns` turns, which counts actions of both.

    After `max_invalid` invalid actions in a row, the user writes a random sentence of its
    situation, and the agent a random question.

    ## Information
    The common keys. `success` and `progress` are those of the environment.

    ## Arguments
    - `env` (str, default "Retail-v0"): id of the environment: Retail-v0, Airline-v0 or Telecom-v0.
    - `env_kwargs` (dict or None, default None): arguments of the environment.
    - `invention_cost` (float, default 0.1): see Rewards.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `seat` (single seat only): player_0 (agent) or player_1 (user).
    - `opponents` (single seat only, default "scripted"): the player of the other seat.
      - "random": random questions of the agent, and random sentences of the user's situation.
      - "scripted": the expert and the scripted user of the environment.

    ## References
    - tau2-bench (arXiv 2506.07982): a user that sees its instructions and controls a device. There,
      it is a language model that is not trained.
    - UserRL (arXiv 2509.19736): training against simulated users.

    ## Version History
    v0: first version.
    """

    players = range(2, 3)
    State = State
    state: State
    inner: ServiceDesk
    levels = ("random", "scripted")
    expert_level = "scripted"
    default_opponents = "scripted"

    def __init__(
        self,
        *,
        env: str = "Retail-v0",
        env_kwargs: dict[str, Any] | None = None,
        invention_cost: float = 0.1,
        **kwargs,
    ):
        if invention_cost < 0:
            raise ConfigError(f"invention_cost must be at least 0, got {invention_cost}.")
        super().__init__(**kwargs)
        inner = make_inner(env, env_kwargs or {})
        if not isinstance(inner, ServiceDesk) or inner.user != "scripted":
            raise ConfigError(
                "The game needs a customer service environment (Retail-v0, Airline-v0 or "
                f"Telecom-v0) with the scripted user, got {env_name(inner)}."
            )
        self.inner, self.tasks, self.invention_cost = inner, inner.tasks, invention_cost
        self.reward_names = inner.reward_names  # type: ignore[misc]  # fixed by the environment
        self._setting = (
            "A conversation of a service agent, player_0, and a user, player_1. Both get the score "
            "of the conversation.\n"
            "\n"
        )
        of_user = (
            "The user:\n"
            "- Your observation holds your situation and the agent's message.\n"
            "- Write one short message per turn, in your own words. Reveal only what is necessary "
            "for the current step.\n"
            "- Invent nothing. A message with a number or code that nobody has told you costs "
            f"{invention_cost:g}.\n"
            "- To agree to a proposal, begin your message with Yes.\n"
            f"- When everything is settled, write {STOP}."
        )
        self._parts = {AGENT: f"The agent:\n{inner.instructions}", USER: of_user}
        self.instructions = f"{self._setting}{of_user}\n\n{self._parts[AGENT]}"

    def instructions_for(self, agent: str) -> str:
        """Returns the instructions without the other agent's: the user knows no policy."""
        return self._setting + self._parts[agent]

    def role(self, agent: str) -> str:
        """Returns "agent" or "user"."""
        return "agent" if agent == AGENT else "user"

    def possible_roles(self, agent: str) -> tuple[str, ...]:
        """Returns the agent's role, which is the same in all episodes."""
        return (self.role(agent),)

    def _acting(self) -> tuple[str, ...]:
        state = self.state
        if state.ended:
            return ()
        return (AGENT,) if state.opened and not state.message else (USER,)

    def _look(self, agent: str) -> TimeStep:
        state, last = self.state, self.inner._last
        assert last is not None
        over, acts = state.ended or state.cut, agent in self._acting()
        text, key, feedback = last.text, last.state_key, last.feedback
        if agent == USER:
            lines = [f"You are the user. {self.inner.case.instruction}"]
            if over or not acts:
                lines.append("The conversation is over." if over else "Wait for the agent.")
            else:
                lines.append(f"Agent: {clip(state.message, LONGEST_MESSAGE) or GREETING}")
                lines += [f"Phone: {report}" for report in self._fresh_reports()]
            text, key, feedback = "\n\n".join(lines), self._key(), ""
        elif not (over or acts):
            text, key, feedback = "Wait for the user.", self._key(), ""
        return TimeStep(
            text=text,
            success=last.success,
            progress=last.progress,
            state_key=key,
            feedback=feedback,
        )

    def _fresh_reports(self) -> list[str]:
        """Returns the reports of the device since the agent's message."""
        return self.state.reports[len(self.state.reports) - self.state.uses :]

    def _key(self) -> str:
        """Returns the key of the state while the user acts."""
        inner, reports = self.inner, self.state.reports
        heard = [inner.state.digest, inner._changed(), self.state.message, *reports]
        return hashlib.blake2b(repr(heard).encode(), digest_size=8).hexdigest()

    def _parse(self, agent: str, action: str) -> str:
        if agent == AGENT:
            return action
        words = normalized(spoken(action)).strip()
        if not 0 < len(words) <= LONGEST_MESSAGE:
            raise InvalidMove(
                f"A message must have 1 to {LONGEST_MESSAGE:,} characters, got {len(words):,}."
            )
        if STOP in words and not self.state.opened:
            raise InvalidMove(f"Write {STOP} later. First tell the agent your problem.")
        return words

    def _advance(self, moves: dict[str, str]) -> Rewards:
        ((agent, said),) = moves.items()
        if agent == USER:
            return self._reply(said)
        if self._is_message(said):
            self.state.message = message_of(said)
            return {}
        return self._rewards(self._step_inner(said, AGENT))

    def _is_message(self, said: str) -> bool:
        """Whether an action of the agent is a message to the user."""
        try:
            length = len(message_of(said).strip())
            return self.inner.read_call(said) is None and 0 < length <= LONGEST_MESSAGE
        except ValueError:
            return False  # a malformed call

    def _reply(self, words: str) -> Rewards:
        """Plays the user's words: a use of its device, or the reply to the agent."""
        state, inner = self.state, self.inner
        if state.uses < MOST_USES and (report := inner.use_device(words)) is not None:
            state.reports.append(report)
            state.uses += 1
            return {}
        cost = -self.invention_cost if self._invents(words) else 0.0
        terms: dict[str, float] = {}
        inner.words = words
        try:
            if state.opened:
                terms = self._step_inner(state.message, AGENT)
            else:
                inner.reopen()
        finally:
            inner.words = None
        state.opened, state.message, state.uses = True, "", 0
        rewards = self._rewards(terms)
        return {**rewards, USER: {**rewards[USER], "cost": cost}}

    def _rewards(self, terms: dict[str, float]) -> dict[str, dict[str, float]]:
        """Returns the rewards of both for the reward terms of the environment."""
        return {AGENT: terms, USER: {"task": terms.get("task", 0.0)}}

    def _invents(self, words: str) -> bool:
        """Whether the user's own words hold a code that nobody has told it."""
        found = self._codes(words)
        if not found or words == self.inner.scripted_words(self.state.message):
            return False
        told = [text for who, text in self.inner.state.conversation if who == "agent"]
        known = codes(
            "\n".join([self.inner.case.instruction, self.state.message, *told, *self.state.reports])
        )
        return not (found <= known or self._codes(_GAP.sub("", words)) <= known)

    def _codes(self, words: str) -> set[str]:
        return {code for code in codes(words) if len(code) >= SHORTEST_CODE}

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        sentences = self.inner.case.instruction.split(". ") if agent == USER else MESSAGES
        return sentences[int(rng.integers(len(sentences)))]

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        if agent == AGENT:
            return self.inner.expert() or QUESTION
        return self.inner.scripted_words(self.state.message)

    def picture(self) -> str:
        """Returns the conversation."""
        state = self.state
        spoken = self.inner.state.conversation if state.opened else [["agent", GREETING]]
        lines = [f"[{who}] {text}" for who, text in spoken]
        lines += [f"[agent] {state.message}"] * bool(state.message)
        return "\n".join([*lines, *(f"[phone] {report}" for report in self._fresh_reports())])

    def _check_episode(self, episode: GameEpisode) -> None:
        if not 0 <= self.state.uses <= len(self.state.reports):
            raise ValueError(f"the device cannot have been used {self.state.uses} times")
        super()._check_episode(episode)


env, raw_env, parallel_env = make_pettingzoo(ServiceTwoPlayer)
