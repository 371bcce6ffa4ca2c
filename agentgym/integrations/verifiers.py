"""Environments and games of AgentGym for `verifiers` (version 1) and prime-rl.

The package `agentgym_verifiers` exports the three classes, so that verifiers finds them by its id:

    vf-eval agentgym-verifiers --env.taskset.env KuhnPoker-v0

An environment is played by the role `player_0`. A multi-agent game is played by `player_0`,
`player_1` and so on in one episode, each with its own conversation, trace and reward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, Literal

from agentgym.errors import ConfigError, needs_extra
from agentgym.multiagent.game import TextGame
from agentgym.registration.games import make_parallel
from agentgym.registration.making import make_env, tasks_of
from agentgym.registration.registry import find

with needs_extra("agentgym.integrations.verifiers", "verifiers"):
    import httpx
    import verifiers.v1 as vf  # pyright: ignore[reportMissingImports]
    from pydantic import Field
    from verifiers.v1.dialects.chat import message_to_wire  # pyright: ignore[reportMissingImports]

__all__ = ["AgentGymEnv", "AgentGymTaskset", "ChatHarness"]


class ChatHarness(vf.Harness[vf.HarnessConfig]):
    """Sends the conversation to the model and nothing else: no tools and no program to install."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Requests one completion from the model's endpoint."""
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        async with httpx.AsyncClient(timeout=None) as client:
            reply = await client.post(
                f"{endpoint.rstrip('/')}/chat/completions",
                json={"model": ctx.model, "messages": messages},
                headers={"Authorization": f"Bearer {secret}"},
            )
        return vf.ProgramResult(int(reply.is_error), reply.text, reply.text * reply.is_error)


class AgentGymData(vf.TaskData):
    """A task: the environment, its arguments, the name of the task and the seed."""

    info: dict[str, Any]


class AgentGymTask(vf.Task[AgentGymData]):
    """A task of an environment or game."""


class AgentGymConfig(vf.TasksetConfig):
    """The tasks of an id.

    Attributes:
        env: the id, such as WebShop-v0.
        env_kwargs: arguments of the environment.
        split: "train" or "test".
        first_seed: seed of the first episode. The seeds of the following ones count on.
        self_play: whether agents play all seats of a game. Otherwise `player_0` plays one seat
            against scripted opponents.
    """

    env: str = "NumberLine-v0"
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    split: Literal["train", "test"] = "train"
    first_seed: int = 0
    self_play: bool = True


class AgentGymTaskset(vf.Taskset[AgentGymTask, AgentGymConfig]):
    """The tasks of a split, in order and again, each time with a new seed."""

    INFINITE = True

    def load(self) -> Iterator[AgentGymTask]:
        """Yields the tasks."""
        config = self.config
        shared = {"env": find(config.env).id, "env_kwargs": config.env_kwargs}
        game = shared | {"self_play": config.self_play and find(config.env).multi_agent}
        tasks = tasks_of(make_env(config.env, **config.env_kwargs)).split(config.split)
        for number in count():
            task = str(tasks[number % len(tasks)])
            info = game | {"task": task, "seed": config.first_seed + number}
            data = AgentGymData(name=f"{config.env} {task}", info=info)
            yield AgentGymTask(data, config.task)


def _player() -> vf.AgentConfig:
    return vf.AgentConfig(runtime=vf.SubprocessConfig())


class AgentGymEnvConfig(vf.EnvConfig):
    """The roles. A game uses as many of them as it has players."""

    player_0: vf.AgentConfig = _player()
    player_1: vf.AgentConfig = _player()
    player_2: vf.AgentConfig = _player()
    player_3: vf.AgentConfig = _player()
    player_4: vf.AgentConfig = _player()
    player_5: vf.AgentConfig = _player()
    player_6: vf.AgentConfig = _player()
    player_7: vf.AgentConfig = _player()
    player_8: vf.AgentConfig = _player()
    player_9: vf.AgentConfig = _player()


class AgentGymEnv(vf.Env[AgentGymEnvConfig]):
    """Plays a task to its end, with the environment as the user of each conversation.

    The instructions are the system prompt, observations are messages of the user, and replies are
    actions. The reward `return` is the undiscounted return of the seat. Metrics are `success`,
    `progress`, `turns`, and the share of `valid` actions. A seat whose conversation a limit ends
    has the return so far, and so have the other seats of its game.
    """

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Plays an episode.

        Raises:
            ConfigError: if a game has more seats than there are roles.
        """
        info = task.data.info
        if info["self_play"]:
            game = make_parallel(info["env"], **info["env_kwargs"]).game
            await _play_game(game, task, agents)
            return
        env = make_env(info["env"], **info["env_kwargs"])
        try:
            await _play(env, task, agents)
        finally:
            env.close()


async def _play(env: Any, task: vf.Task, agents: vf.Agents) -> None:
    """Plays an episode of an environment with `player_0`."""
    info = task.data.info
    text, last = env.reset(seed=info["seed"], options={"task": info["task"]})
    rewards, valid, over = 0.0, [], False
    seat = _seat(task, env.get_wrapper_attr("instructions"))
    async with agents.player_0.interaction(seat) as talk:
        while not over and not (segment := await talk.turn(text)).terminated:
            text, reward, terminated, truncated, last = env.step(segment.last_reply)
            rewards += float(reward)
            valid.append(bool(last["valid"]))
            over = terminated or truncated
    _record(talk.trace, info, rewards, valid, last)


async def _play_game(game: TextGame, task: vf.Task, agents: vf.Agents) -> None:
    """Plays an episode of a game, one agent per seat. Agents that act together do not wait."""
    info, seats = task.data.info, game.possible_agents
    if missing := [seat for seat in seats if seat not in AgentGymEnvConfig.model_fields]:
        raise ConfigError(f"{info['env']} has {len(seats)} seats, and no role plays {missing[0]}.")
    game.reset(seed=info["seed"], task=info["task"])
    rewards = dict.fromkeys(seats, 0.0)
    valid: dict[str, list[bool]] = {seat: [] for seat in seats}
    async with AsyncExitStack() as stack:
        talks = {
            seat: await stack.enter_async_context(
                getattr(agents, seat).interaction(_seat(task, game.instructions_for(seat)))
            )
            for seat in seats
        }
        while acting := game.acting:
            turns = [talks[seat].turn(game.seen(seat).observation) for seat in acting]
            segments = dict(zip(acting, await asyncio.gather(*turns), strict=True))
            if any(segment.terminated for segment in segments.values()):
                break
            playing = [seat for seat in seats if not game.over(seat)]
            game.play({seat: segment.last_reply for seat, segment in segments.items()})
            for seat in playing:
                rewards[seat] += game.reward(seat)
            for seat in acting:
                valid[seat].append(game.outcome(seat).valid)
    for seat, talk in talks.items():
        _record(talk.trace, info | {"seat": seat}, rewards[seat], valid[seat], game.info(seat))


def _seat(task: vf.Task, instructions: str) -> vf.Task:
    """Returns the task of a conversation that the environment opens."""
    name, idx = task.data.name, task.data.idx
    return vf.Task(vf.TaskData(idx=idx, name=name, system_prompt=instructions))


def _record(
    trace: vf.Trace,
    info: Mapping[str, Any],
    reward: float,
    valid: Sequence[bool],
    last: Mapping[str, Any],
) -> None:
    """Writes the return and the metrics of a seat to its trace."""
    trace.record_reward("return", reward)
    trace.record_metric("success", float(last["success"]))
    trace.record_metric("progress", float(last["progress"]))
    trace.record_metric("turns", float(len(valid)))
    trace.record_metric("valid", sum(valid) / max(1, len(valid)))
    trace.info["agentgym"] = dict(info)
