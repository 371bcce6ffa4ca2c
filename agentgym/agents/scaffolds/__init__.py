"""Agents around an agent: they reflect, plan, split tasks or show examples, and let it act."""

from agentgym.agents.scaffolds.adapt import AdaptAgent
from agentgym.agents.scaffolds.base import ScaffoldAgent
from agentgym.agents.scaffolds.candidates import CandidatesAgent
from agentgym.agents.scaffolds.cases import CasesAgent
from agentgym.agents.scaffolds.examples import ExamplesAgent
from agentgym.agents.scaffolds.instructions import InstructionsAgent
from agentgym.agents.scaffolds.lessons import LessonsAgent
from agentgym.agents.scaffolds.library import LibraryAgent
from agentgym.agents.scaffolds.plan import PlanExecuteAgent, PlanRefineAgent
from agentgym.agents.scaffolds.rci import RciAgent
from agentgym.agents.scaffolds.reflexion import ReflexionAgent
from agentgym.agents.scaffolds.rules import RulesAgent
from agentgym.agents.scaffolds.workers import WorkersAgent

SCAFFOLDS: dict[str, type[ScaffoldAgent]] = {
    "reflexion": ReflexionAgent,
    "plan_execute": PlanExecuteAgent,
    "plan_refine": PlanRefineAgent,
    "rci": RciAgent,
    "adapt": AdaptAgent,
    "examples": ExamplesAgent,
    "cases": CasesAgent,
    "rules": RulesAgent,
    "instructions": InstructionsAgent,
    "lessons": LessonsAgent,
    "library": LibraryAgent,
    "candidates": CandidatesAgent,
    "workers": WorkersAgent,
}
"""The scaffolds that `make_agent` wraps around an agent, as in "reflexion:chat:MODEL@URL"."""
SEATED = tuple(name for name in SCAFFOLDS if name not in ("reflexion", "rules", "candidates"))
"""Those that can play in the seats of games. The others make several attempts at a task."""

__all__ = [
    "SCAFFOLDS",
    "SEATED",
    "AdaptAgent",
    "CandidatesAgent",
    "CasesAgent",
    "ExamplesAgent",
    "InstructionsAgent",
    "LessonsAgent",
    "LibraryAgent",
    "PlanExecuteAgent",
    "PlanRefineAgent",
    "RciAgent",
    "ReflexionAgent",
    "RulesAgent",
    "ScaffoldAgent",
    "WorkersAgent",
]
