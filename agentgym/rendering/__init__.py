"""Pictures of environments for `render_mode="rgb_array"`: scenes, and how they are drawn.

An environment or game declares its picture with `_frame`, a grid of cells (`scene.py`). All scenes
are drawn by `draw` (`pixels.py`), which needs the extra `render`.
"""

from agentgym.rendering.cards import TABLE, card, hand, table
from agentgym.rendering.pixels import SIZE, draw
from agentgym.rendering.scene import Cell, Scene, from_map

__all__ = ["SIZE", "TABLE", "Cell", "Scene", "card", "draw", "from_map", "hand", "table"]
