"""Evaluation of a run on held-out tasks."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator

from agentgym.agents import Agent
from agentgym.evaluation.report import Record, Report
from agentgym.evaluation.runner import evaluate
from agentgym.evaluation.self_play import self_play, team_record
from agentgym.registration.making import short_id
from agentgym.registration.mixture import Mixture
from agentgym.registration.registry import find
from agentgym.registration.single_seat import SingleSeat
from agentgym.trainers.data.run_state import RunState
from agentgym.trainers.gateway.executor import HarnessExecutor
from agentgym.trainers.players.lineup import game_arguments
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.role_agent import RoleAgent
from agentgym.trainers.rollout.env_pool import MakeEnv
from agentgym.trainers.run.diagnostics import poor_clone
from agentgym.trainers.run.exploitability import Exploitability, Measured
from agentgym.trainers.run.program_evaluation import evaluate_program
from agentgym.trainers.run.saving import saved_first, write_policy
from agentgym.trainers.run.self_play_alarms import RISING, self_play_alarms
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system.checkpoint import replace_folder
from agentgym.trainers.system.processes import map_across_processes

if TYPE_CHECKING:
    from agentgym.trainers.run.parts import Parts


def evaluate_agent(
    config: TrainConfig,
    make_env: MakeEnv,
    agent: Agent | str,
    accelerator: Accelerator | None = None,
    check: Callable[[Any], None] | None = None,
    program: HarnessExecutor | None = None,
) -> Report:
    """Evaluates an agent on held-out tasks, the same ones for every run and seed.

    Args:
        config: the number of tasks.
        make_env: makes one environment.
        agent: an agent or its name.
        accelerator: its processes share the episodes. None: this process plays all.
        check: called after each episode. An exception from it ends the evaluation.
        program: plays the episodes of the run, and those of the policy here.

    Raises:
        KeyboardInterrupt: if Ctrl-C ended the evaluation early.
    """
    count = config.evaluation.eval_episodes
    world = 1 if accelerator is None else accelerator.num_processes
    played: list[Report] = []

    def play(numbers: Sequence[int]) -> list[Record]:
        slots = -(-config.rollout.num_envs // world)
        if program is not None and isinstance(agent, PolicyAgent):
            report = evaluate_program(
                config, make_env, program, name=agent.name, only=numbers, slots=slots, check=check
            )
        else:
            report = evaluate(
                make_env,
                agent,
                tasks=count,
                num_envs=slots,
                only=numbers,
                on_episode=check,
                env_seconds=config.environment.env_seconds,
            )
        if len(report.episodes) < len(numbers):  # an incomplete result must not count as complete
            raise KeyboardInterrupt
        played.append(report)
        return report.episodes

    everything = range(count)
    if accelerator is None:
        records = play(everything)
    else:
        records = map_across_processes(accelerator, everything, play)
    report = replace(played[0], episodes=records)
    settings = config.to_json()
    report.env_kwargs.update(settings.get("env_kwargs", {}))
    if "wrap" in settings:
        report.env_kwargs["wrap"] = settings["wrap"]
    ids = (*config.environment.ids, *config.evaluation.eval_env_id)
    return report if len(ids) == 1 else replace(report, env="+".join(ids))


def evaluate_seats(
    config: TrainConfig,
    make_env: MakeEnv,
    agent: Agent | str,
    seats: Sequence[str],
    accelerator: Accelerator | None = None,
    check: Callable[[Any], None] | None = None,
) -> dict[str, Report]:
    """Evaluates an agent in seats of games, against scripted opponents and on the same tasks.

    The seats share the number of episodes. The other arguments are those of `evaluate_agent`.
    """
    share = config.with_changes(eval_episodes=-(-config.evaluation.eval_episodes // len(seats)))

    def seated(seat: str) -> MakeEnv:
        def make() -> Any:
            env = make_env()
            for each in env.envs.values() if isinstance(env, Mixture) else (env,):
                single = each.unwrapped
                if isinstance(single, SingleSeat) and seat in single.game.possible_agents:
                    single.seat = seat
            return env

        return make

    return {seat: evaluate_agent(share, seated(seat), agent, accelerator, check) for seat in seats}


def evaluate_team(
    config: TrainConfig,
    agent: Agent | str,
    accelerator: Accelerator | None = None,
    check: Callable[[Any], None] | None = None,
) -> tuple[Report, dict[str, Report]]:
    """Evaluates an agent in all seats of a game at once.

    Returns:
        The report of the team, with a record per game, and those of the seats.
    """
    [env], count = config.environment.ids, config.evaluation.eval_episodes
    given = config.environment.env_kwargs
    kwargs = game_arguments(given)
    if "invalid_penalty" in given:  # the game charges it, as the environment of a seat does
        kwargs["invalid_penalty"] = given["invalid_penalty"]
    world = 1 if accelerator is None else accelerator.num_processes

    def play(numbers: Sequence[int]) -> list[dict[str, Record]]:
        return self_play(
            env,
            agent,
            episodes=count,
            num_games=-(-config.rollout.num_envs // world),
            env_kwargs=kwargs,
            only=numbers,
            on_game=None if check is None else partial(check, None),
        )

    everything = range(count)
    if accelerator is None:
        games = play(everything)
    else:
        games = map_across_processes(accelerator, everything, play)
    name = agent if isinstance(agent, str) else agent.name
    team = [team_record([*game.values()]) for game in games if game]
    report = Report(
        find(env).id, name, "test", 0, count, config.to_json().get("env_kwargs", {}), episodes=team
    )
    seats = dict.fromkeys(seat for game in games for seat in game)
    parts = {seat: [game[seat] for game in games if seat in game] for seat in seats}
    return report, {seat: replace(report, episodes=part) for seat, part in parts.items()}


def join_seats(reports: Mapping[str, Report]) -> Report:
    """Returns one report of the evaluations in several seats."""
    episodes = [episode for report in reports.values() for episode in report.episodes]
    planned = sum(report.planned for report in reports.values())
    return replace(next(iter(reports.values())), episodes=episodes, planned=planned)


def by_environment(report: Report, config: TrainConfig) -> dict[str, Report]:
    """Returns the report of each environment that was played, those of `eval_env_id` last."""
    trained, others = config.environment.ids, config.evaluation.eval_env_id
    if len(trained) == 1 and not others:
        return {trained[0]: report}
    found = {}
    for id in (*trained, *others):
        episodes = [
            replace(episode, task=episode.task.removeprefix(f"{id} "))
            for episode in report.episodes
            if episode.task.startswith(f"{id} ")
        ]
        kwargs = dict(report.env_kwargs)
        for name in config.environment.env_kwargs if id in others else ():
            del kwargs[name]
        if episodes:
            found[id] = replace(
                report, env=id, env_kwargs=kwargs, episodes=episodes, planned=len(episodes)
            )
    return found


def of_training(report: Report, config: TrainConfig) -> Report:
    """Returns the report without the episodes of environments that are not trained on."""
    parts = by_environment(report, config)
    if len(parts) == 1:
        return next(iter(parts.values()))
    trained = [parts[id] for id in config.environment.ids if id in parts]
    episodes = [episode for part in trained or parts.values() for episode in part.episodes]
    return replace(report, episodes=episodes, planned=len(episodes))


def evaluation_metrics(report: Report, config: TrainConfig) -> dict[str, float]:
    """Returns the scalars of an evaluation: of training's environments, and of each of several."""
    estimates = of_training(report, config).aggregate()
    reward = estimates["reward"]
    numbers = {f"eval/{name}": estimate.mean for name, estimate in estimates.items()}
    numbers["eval/reward_low"] = reward.mean if reward.low is None else reward.low
    numbers["eval/reward_high"] = reward.mean if reward.high is None else reward.high
    parts = by_environment(report, config)
    for id, part in parts.items() if len(parts) > 1 else ():
        name = short_id(id)
        numbers |= {f"eval/{name}/{key}": e.mean for key, e in part.aggregate().items()}
    return numbers


MEMBERS = 4
"""Members of the pool that play the policy in evaluations of its exploitability."""


def is_best(state: RunState, reward: float, measured: Measured | None) -> bool:
    """Returns whether an evaluation is the best so far, and records its values.

    In a zero-sum game, the least exploitable policy is the best if exploitability is measured,
    otherwise the one with the largest reward. The first measured one replaces those without.
    """
    if measured is not None and measured.zero_sum:
        value, before = measured.exploitability.mean, state.best_exploitability
        if before is not None and value >= before:
            return False
        state.best_exploitability = value
    elif state.best_reward is not None and reward <= state.best_reward:
        return False
    else:
        state.best_exploitability = None
    state.best_reward = reward
    return True


class Evaluator:
    """Evaluates the policies of a run on held-out tasks and keeps the best ones.

    Args:
        trainer: the trainer of the run.
    """

    def __init__(self, trainer: Parts):
        self._trainer = trainer
        self._exploitability: Exploitability | None = None

    def evaluate_if_due(self) -> None:
        """Evaluates before, after and every `eval_every` iterations."""
        trainer, config, state = self._trainer, self._trainer.config, self._trainer.state
        every, at = config.evaluation.eval_every, state.iteration
        due = at == 0 or trainer.finished() or (every > 0 and at % every == 0)
        if not config.evaluation.eval_episodes or not due or state.evaluated == at:
            return
        with saved_first(trainer):
            self._evaluate_now()

    def _evaluate_now(self) -> None:
        """Evaluates the policy, logs the result and keeps the policy if it is the best one."""
        trainer, config, state = self._trainer, self._trainer.config, self._trainer.state
        begun, at = time.perf_counter(), state.iteration
        name = trainer.recipe if at else ("imitation" if config.imitates else "start")
        report, numbers = self._evaluate(trainer.agent(name))
        measured, alarms = self._measure(trainer.agent(name)), {}
        if measured is not None:
            numbers |= measured.metrics()
        best = copy.copy(state)
        if is_best(best, numbers["eval/reward"], measured):
            best.best_iteration = at
            if trainer.is_main:
                replace_folder(
                    trainer.folder.path / "best",
                    lambda path: write_policy(path, trainer.agent(trainer.recipe), config, state),
                )
        # Nothing is recorded before the best policy is written.
        vars(state).update(vars(best))
        state.evaluated, state.last = at, report.to_json()
        if at == 0:
            state.first = state.last
        if measured is not None and not config.game.scripted:
            alarms = self_play_alarms(state.self_play, measured)
            trainer.rollouts.players.react(alarm=RISING in alarms)
        numbers["time/evaluate"] = time.perf_counter() - begun
        trainer.log.row(state, numbers, alarms)
        if at == 0 and state.demonstrated is not None:
            state.cloned = numbers["eval/success"]
            if not config.run.quiet:
                self._compare_clone(state.cloned, state.demonstrated)
        trainer.callbacks.call("on_evaluation_end", trainer, report)

    def _measure(self, agent: PolicyAgent | RoleAgent) -> Measured | None:
        """Returns the exploitability of the policy, equal in all processes, if it is set."""
        trainer = self._trainer
        if not trainer.config.evaluation.eval_exploitability:
            return None
        if self._exploitability is None:
            self._exploitability = Exploitability(trainer.config, trainer.pulse)
        measure = self._exploitability.measure
        players = trainer.rollouts.players
        work = lambda policies: [measure(each, players.members(MEMBERS)) for each in policies]  # noqa: E731
        return map_across_processes(trainer.accelerator, [agent], work)[0]

    def _compare_clone(self, success: float, demonstrated: float) -> None:
        """Says how well the cloned policy plays, beside its demonstrations and a random agent."""
        trainer = self._trainer
        random = self._evaluate("random")[1]["eval/success"]
        trainer.log.say(
            f"The clone succeeds in {success:.0%} of held-out tasks (its demonstrations: "
            f"{demonstrated:.0%}, a random agent: {random:.0%})."
        )
        if success < max(random, demonstrated / 2):
            trainer.log.say(f"warning: {poor_clone(trainer.config.cloning)}")

    def _evaluate(self, agent: Agent | str) -> tuple[Report, dict[str, float]]:
        """Returns the report of an evaluation and its scalars, of each trained seat of a game."""
        trainer, config = self._trainer, self._trainer.config
        seats = config.game.learners
        if not config.evaluation.eval_env_id:
            seats = trainer.lineup.agents.get("", seats)
        arguments = config, trainer.make_eval_env, agent
        processes = trainer.accelerator, trainer.pulse
        count = config.evaluation.eval_episodes // trainer.accelerator.num_processes
        with trainer.log.phases.phase("evaluate", count):
            if trainer.lineup.team:
                report, reports = evaluate_team(config, agent, *processes)
            elif seats:
                reports = evaluate_seats(*arguments, seats, *processes)
                report = join_seats(reports)
            else:
                player = trainer.rollouts.executor
                program = player if isinstance(player, HarnessExecutor) else None
                report, reports = evaluate_agent(*arguments, *processes, program), {}
        numbers = evaluation_metrics(report, config)
        for seat, part in reports.items():
            numbers |= {f"eval/{seat}/{name}": e.mean for name, e in part.aggregate().items()}
        return report, numbers
