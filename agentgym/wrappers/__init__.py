"""Gymnasium wrappers of text environments, one per file."""

from agentgym.wrappers.abridged_observation import AbridgedObservation
from agentgym.wrappers.admissible_action import AdmissibleAction
from agentgym.wrappers.ask_expert import AskExpert
from agentgym.wrappers.base import TextWrapper
from agentgym.wrappers.code_action import CodeAction
from agentgym.wrappers.compose import Compose
from agentgym.wrappers.dream import Dream
from agentgym.wrappers.encode_observation import EncodeObservation
from agentgym.wrappers.evidence import Evidence
from agentgym.wrappers.expert_start import ExpertStart
from agentgym.wrappers.extract_action import ExtractAction
from agentgym.wrappers.history_observation import HistoryObservation
from agentgym.wrappers.memory import Memory
from agentgym.wrappers.monologue import Monologue
from agentgym.wrappers.multi_trial import MultiTrial
from agentgym.wrappers.outcome import Outcome
from agentgym.wrappers.own_start import OwnStart
from agentgym.wrappers.partial_observation import PartialObservation
from agentgym.wrappers.privileged_text import PrivilegedText
from agentgym.wrappers.reflector import Reflector
from agentgym.wrappers.reward_function import RewardFunction, Transition
from agentgym.wrappers.subgoals import Subgoals
from agentgym.wrappers.swap_words import SwapWords
from agentgym.wrappers.thought_graph import ThoughtGraph
from agentgym.wrappers.token_action import TokenAction
from agentgym.wrappers.tool_rules import ToolRules
from agentgym.wrappers.tool_tasks import ToolTasks
from agentgym.wrappers.weighted_reward import WeightedReward
from agentgym.wrappers.whole_plan import WholePlan
from agentgym.wrappers.written_goal import WrittenGoal

__all__ = [
    "AbridgedObservation",
    "AdmissibleAction",
    "AskExpert",
    "CodeAction",
    "Compose",
    "Dream",
    "EncodeObservation",
    "Evidence",
    "ExpertStart",
    "ExtractAction",
    "HistoryObservation",
    "Memory",
    "Monologue",
    "MultiTrial",
    "Outcome",
    "OwnStart",
    "PartialObservation",
    "PrivilegedText",
    "Reflector",
    "RewardFunction",
    "Subgoals",
    "SwapWords",
    "TextWrapper",
    "ThoughtGraph",
    "TokenAction",
    "ToolRules",
    "ToolTasks",
    "Transition",
    "WeightedReward",
    "WholePlan",
    "WrittenGoal",
]
