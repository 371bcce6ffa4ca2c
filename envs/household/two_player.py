"""WatchAndHelp for two: the partner with the goal is an agent, too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.envs.household import rules
from agentgym.envs.household.shared_home import (
    WAIT,
    act,
    company_text,
    goal_text,
    home_key,
    make_chores,
    missing,
    place_text,
    plan,
    understood,
)
from agentgym.envs.household.watch_and_help import COMMANDS, SIGHT, WatchAndHelp
from agentgym.envs.household.watch_and_help import State as InnerState
from agentgym.multiagent.env_game import EnvGame, EnvGameState
from agentgym.multiagent.episode import GameEpisode
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import match_action
from agentgym.utils.serialization import from_json

HELPER, PARTNER = "player_0", "player_1"


@dataclass(kw_only=True)
class State(EnvGameState):
    """The state of the turn beside that of the environment.

    Attributes:
        command: the helper's last possible command, or "".
        asked: whether the partner acts next. The command is then not yet played in the environment.
    """

    command: str = ""
    asked: bool = False


class WatchAndHelpTwoPlayer(EnvGame):
    """A helper and a partner with a goal, in one home, as two agents.

    ## Description
    The game of `WatchAndHelp-v0` with an agent in place of the scripted partner.

    - player_0, the helper, has watched the partner in another home and does not see the goal. Its
      observations and rewards are those of `WatchAndHelp-v0`.
    - player_1, the partner, knows the goal and works on it too.

    Both act in every turn of the home, the helper first, and see the commands and places of each
    other. With the scripted partner, the episode of the helper equals that of `WatchAndHelp-v0`.

    ## Action Space
    Text commands, as in `WatchAndHelp-v0`. Admissible are all possible commands.

    ## Observation Space
    Text:

    - Helper: the things that the partner moved in the other home, the partner's last command and
      place, the helper's place, the visible things and the thing in hand.
    - Partner: the goal and the things that are missing, the helper's last command and place, the
      partner's place, the visible things and the thing in hand.

    ## Rewards
    - `task`: that of `WatchAndHelp-v0`, for both: when the goal is reached, the speed-up L / T - 1,
      or 0 if it is negative. T is the number of turns of the home, and L the number of commands
      that the scripted partner needs without help.
    - `invalid`: minus `invalid_penalty` for an agent's own invalid action.

    ## Starting State
    That of `WatchAndHelp-v0`, whose tasks are those of the game. The commands in the other home are
    those of the scripted partner.

    ## Episode End
    - Termination: the goal is reached.
    - Truncation: after `horizon` turns of the home, or after `max_turns` turns of the game, which
      counts actions of both.

    An invalid command of the helper takes a turn of the home, in which the partner does not act.
    After an invalid command of the partner, the partner acts again. After `max_invalid` of them in
    a row, it looks around.

    ## Information
    The common keys. `success`: the goal is reached in fewer turns than the scripted partner needs
    alone. `progress`: the share of the things that are where they belong.

    ## Arguments
    - `horizon` (int or None, default 100): limit of the turns of the home, the `max_turns` of
      `WatchAndHelp-v0`.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `seat` (single seat only): player_0 (helper) or player_1 (partner).
    - `opponents` (single seat only, default "scripted"): the player of the other seat.
      - "random": random possible commands.
      - "scripted": the expert and the scripted partner of `WatchAndHelp-v0`.

    ## Notes
    The scripted helper knows the goal, which can be inferred from its observation. In two cases,
    the seat of the helper differs from `WatchAndHelp-v0`: after a truncation, no actions are
    admissible, and an output in which a wrapper finds no action takes no turn of the home.

    ## References
    Watch-And-Help (arXiv 2010.09890): see `WatchAndHelp-v0`. There, only the helper learns.

    ## Version History
    v0: first version.
    """

    State = State
    state: State
    inner: WatchAndHelp
    tasks = WatchAndHelp.tasks
    reward_names = WatchAndHelp.reward_names
    common_reward = True
    levels = ("random", "scripted")
    expert_level = "scripted"
    default_opponents = "scripted"

    def __init__(self, *, horizon: int | None = 100, **kwargs):
        super().__init__(**kwargs)
        self.inner = WatchAndHelp(max_turns=horizon)
        of_partner = (
            "You and a helper are in a room with numbered receptacles and things. Your goal: put "
            "things of certain kinds in or on receptacles of certain kinds. Your helper does not "
            "know the goal. It has watched you reach the same goal in another home.\n"
            "\n"
            "Rules:\n"
            "- Your observation holds the goal. It is reached if things of the same kind are in or "
            "on different receptacles of the right kind, too.\n"
            "- You and your helper act in every turn, your helper first. You see the commands of "
            "each other.\n"
            f"{SIGHT}"
            "- You can hold one thing at a time, and so can your helper.\n"
            "- When the goal is reached, the reward of both is the speed-up: the number of turns "
            "that a person alone would need, divided by the turns played, minus 1.\n"
            f"{COMMANDS}"
        )
        self._parts = {HELPER: self.inner.instructions, PARTNER: of_partner}
        self.instructions = (
            "Two agents in one home, who get the same reward.\n"
            "\n"
            f"The helper, player_0:\n{self._parts[HELPER]}\n"
            "\n"
            f"The partner, player_1:\n{of_partner}"
        )

    def instructions_for(self, agent: str) -> str:
        """Returns the agent's own instructions. The helper's are those of `WatchAndHelp-v0`."""
        return self._parts[agent]

    def role(self, agent: str) -> str:
        """Returns "helper" or "partner"."""
        return "helper" if agent == HELPER else "partner"

    def possible_roles(self, agent: str) -> tuple[str, ...]:
        """Returns the agent's role, which is the same in all episodes."""
        return (self.role(agent),)

    def home(self) -> InnerState:
        """Returns the home after the helper's command, also before it is played."""
        state = self.inner.state
        if self.state.asked:
            command = rules.parse(self.state.command)
            assert command is not None
            state = InnerState(state.me.copy(), state.partner.copy(), state.last)
            act(state.me, state.partner, command)
        return state

    def _acting(self) -> tuple[str, ...]:
        if self.state.ended:
            return ()
        return (PARTNER,) if self.state.asked else (HELPER,)

    def _look(self, agent: str) -> TimeStep:
        state, last = self.state, self.inner._last
        assert last is not None
        if agent == PARTNER:
            return self._look_partner(last)
        if state.asked:
            key = "|".join(["wait", last.state_key, state.command])
            return TimeStep(
                "Wait for your partner.",
                success=last.success,
                progress=last.progress,
                state_key=key,
            )
        return TimeStep(
            last.text,
            success=last.success,
            progress=last.progress,
            admissible=last.admissible,
            state_key=last.state_key,
            feedback=last.feedback,
        )

    def _look_partner(self, last: TimeStep) -> TimeStep:
        chores, home, state = self.inner.chores, self.home(), self.state
        lines = [
            goal_text(chores.goals, home.partner),
            company_text("helper", home.me, state.command),
            place_text(chores.level, home.partner),
        ]
        admissible = ()
        if state.asked:
            admissible = tuple(map(rules.say, rules.commands(chores.level, home.partner)))
        return TimeStep(
            "\n".join(lines),
            success=last.success,
            progress=last.progress,
            admissible=admissible,
            state_key=home_key(self.inner.task, home.partner, home.me, state.command),
        )

    def _parse(self, agent: str, action: str) -> str:
        action = match_action(action, self.admissible(agent)) or action
        if agent == HELPER:
            return action  # also if it is impossible: a turn of the environment
        try:
            return rules.say(understood(self.inner.chores.level, self.home().partner, action))
        except ValueError as error:
            raise InvalidMove(str(error)) from None

    def _fallback(self, agent: str) -> str:
        return rules.say(WAIT)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        ((agent, said),) = moves.items()
        state, inner = self.state, self.inner
        if agent == PARTNER:
            home, inner.answer = self.home(), rules.parse(said)
            assert inner.answer is not None
            self._tell(act(home.partner, home.me, inner.answer), [PARTNER])
            state.asked = False
            return self._play(state.command)
        try:
            command = understood(inner.chores.level, inner.state.me, said)
        except ValueError:
            return self._play(said)
        state.command, state.asked = rules.say(command), True
        if missing(inner.chores.goals, self.home().me):
            return {}
        state.asked = False  # the goal is reached
        return self._play(state.command)

    def _play(self, action: str) -> Rewards:
        """Plays a turn of the home. The reward is that of both."""
        try:
            terms = self._step_inner(action, HELPER)
        finally:
            self.inner.answer = None
        return dict.fromkeys(self.possible_agents, terms)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        if agent == HELPER:
            return self.inner.expert() or rules.say(WAIT)
        chores = self.inner.chores
        return rules.say(plan(chores.level, self.home().partner, chores.goals))

    def privileged_text(self, agent: str) -> str:
        """Returns the goal, and the places of the things that it needs."""
        return self.inner.privileged_text()

    def _check_episode(self, episode: GameEpisode) -> None:
        super()._check_episode(episode)
        if self.state.asked:
            home = from_json(InnerState, self.state.env["state"])
            understood(make_chores(episode.task).level, home.me, self.state.command)


env, raw_env, parallel_env = make_pettingzoo(WatchAndHelpTwoPlayer)
