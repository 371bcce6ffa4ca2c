"""Failed episodes that a language model reads: it plays them again, or names what they did."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import gymnasium

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.agents.basic.view import Agent, View
from agentgym.agents.text_model import text_model
from agentgym.data.episode import RecordedEpisode
from agentgym.data.episode_text import LONGEST, episode_text, outcome_text
from agentgym.evaluation.repair import Player
from agentgym.reading.typography import without_thoughts
from agentgym.tasks import task_rng
from agentgym.time_limits import MANY_TURNS
from agentgym.utils.file_cache import cached_by_files
from agentgym.wrappers.written_goal import GOAL, TERM, clean_goal, with_goal

PROMPT = (
    "You help an agent to learn from a failed episode. You read the rules, the turns with their "
    "observations and actions, and the end. Name the turn with the decisive mistake, and the "
    "advice that would have avoided it, which names specific actions. Reply with two lines, such "
    "as\n"
    "turn: 3\n"
    "advice: Take the key before you open the door."
)
DONE = (
    "You read an episode of an agent in an environment: the rules, and the turns with their "
    "observations and actions. Whatever its goal was, name something worthwhile that it has "
    "brought about, as a goal for an agent that starts at the beginning of this episode: one "
    "sentence in the imperative that is fulfilled at the end, with the details that tell it from "
    "similar goals. Reply with the sentence alone, or with: none"
)
_TURN = re.compile(r"(?im)^[\s*_`>#-]*turn[\s*_`]*[:=][\s*_`]*(\d{1,6})[\s*_`.]*$")
_ADVICE = re.compile(r"(?im)^[\s*_`>#-]*advice[\s*_`]*[:=][\s*_`]*(\S.*)$")


def reflected(
    episode: RecordedEpisode, env: gymnasium.Env[Any, Any], source: str
) -> RecordedEpisode | None:
    """Returns an episode that a language model continues from the mistake that it has found.

    The model reads the failed episode, names the turn with the decisive mistake, and writes advice.
    It then plays on with the advice in its instructions: first after the mistake, so that a
    recovery is shown, and if that fails from the turn of the mistake. The recorded actions have the
    weight 0: they are read, but not imitated. The advice is not part of the episode.

    Sources: the decisive turn and the new attempt with its feedback are those of "Where LLM Agents
    Fail and How They can Learn From Failures" (arXiv 2509.25370), the reflector whose successes are
    training data that of "Re-ReST: Reflection-Reinforced Self-Training for Language Agents" (arXiv
    2406.01495), and masked errors before a correction those of "Training LLM-Based Agents with
    Synthetic Self-Reflected Trajectories and Partial Masking" (arXiv 2505.20023).

    Args:
        episode: an episode that did not succeed.
        env: its environment, with the same arguments and wrappers.
        source: the model: chat:MODEL@URL, policy:FOLDER or model:NAME.

    Returns:
        The episode. None if the reply is unreadable, or no attempt succeeds.

    Raises:
        ConfigError: for another source.
        DataError: if the environment answers differently.
        ChatError: if a server sends no usable reply.
    """
    ending = [f"Last observation: {episode.last_observation[:LONGEST]}"]
    ending.append(outcome_text(episode.success, episode.reward))
    turns = [("", turn.observation, turn.action) for turn in episode.turns]
    agent, ask = _model(source)
    [reply] = ask([episode_text(episode.instructions or "", turns, ending)])
    found = read_advice(reply, len(episode.turns))
    if found is None:
        return None
    turn, advice = found
    for kept in (turn, turn - 1):
        player = Player(episode, env)
        player.repeat(episode.turns[:kept], masked=True)
        if not player.over and _plays(player, agent, advice):
            return player.record(f"{episode.agent} reflected".strip())
    return None


def instructed(
    episode: RecordedEpisode, env: gymnasium.Env[Any, Any], source: str
) -> RecordedEpisode | None:
    """Returns an episode with the goal that a language model says it has fulfilled.

    The instruction is written for the episode, and not the episode for an instruction: the backward
    construction of "Learn-by-interact" (arXiv 2501.10893). Episodes of exploration become tasks, as
    in "CuES: A Curiosity-driven and Environment-grounded Synthesis Framework for Agentic RL" (arXiv
    2512.01311). The new episode is one of the wrapper `WrittenGoal`: with its task, its
    observations, and the reward 1 at the end. A judge that reads it can refuse it.

    Args:
        episode: an episode that did not succeed.
        env: its environment, with the same arguments and wrappers.
        source: the model: chat:MODEL@URL, policy:FOLDER or model:NAME.

    Returns:
        The episode. None if the model names nothing.

    Raises:
        ConfigError: for another source.
        DataError: if the environment answers differently.
        ChatError: if a server sends no usable reply.
    """
    player = Player(episode, env)
    player.repeat(episode.turns)
    turns = [("", turn.observation, turn.action) for turn in player.turns]
    ending = [f"Last observation: {player.observation[:LONGEST]}"]
    rules = episode.instructions or str(env.get_wrapper_attr("instructions"))
    [reply] = text_model(source, DONE)([episode_text(rules, turns, ending)])
    goal = clean_goal(reply)
    if not player.turns or goal.strip(" .").lower() in ("", "none"):
        return None
    found = player.record(f"{episode.agent} instructed".strip())
    for turn in found.turns:
        turn.observation, turn.reward = with_goal(goal, turn.observation), 0.0
        turn.reward_terms = {**dict.fromkeys(turn.reward_terms, 0.0), TERM: 0.0}
    found.turns[-1].reward = found.turns[-1].reward_terms[TERM] = 1.0
    found.turns[-1].progress = 1.0
    last = with_goal(goal, found.last_observation)
    return replace(found, task=f"{episode.task}{GOAL}{goal}", success=True, last_observation=last)


def _plays(player: Player, agent: Agent, advice: str) -> bool:
    """Plays an episode to its end with advice. Returns whether the task is solved.

    It gives up after `MANY_TURNS` turns.
    """
    episode, most = player.episode, len(player.turns) + MANY_TURNS
    rules = str(player.env.get_wrapper_attr("instructions"))
    view = View(
        f"{rules}\n\nAdvice from an earlier attempt at this task: {advice}",
        player.observation,
        player.info,
        task_rng(episode.task, f"reflected/{episode.seed}/{len(player.turns)}"),
        player.env,
        [(turn.observation, turn.action) for turn in player.turns],
    )
    while not player.over and len(player.turns) < most:
        [action] = agent.act([view])
        player.play(action, 1.0)
        view.history.append((view.observation, action))
        view.observation, view.info = player.observation, player.info
    return bool(player.info["success"])


def read_advice(reply: str, turns: int) -> tuple[int, str] | None:
    """Returns the number of a turn, from 1 on, and the advice in a reply.

    Args:
        reply: the reply. Thoughts are ignored.
        turns: number of turns of the episode.

    Returns:
        Both, from the last lines with them. None if one is missing, or there is no such turn.
    """
    text = without_thoughts(reply)[-LONGEST:]
    numbers, advice = _TURN.findall(text), _ADVICE.findall(text)
    if not numbers or not advice or not 1 <= int(numbers[-1]) <= turns:
        return None
    return int(numbers[-1]), advice[-1].strip("*_` ")[:LONGEST]


@cached_by_files("source", maxsize=8)
def _model(source: str) -> tuple[Agent, Replies]:
    """Returns a model as an agent, and as one that answers about episodes."""
    agent = make_agent(source)
    return agent, Replies(agent, source, PROMPT)
