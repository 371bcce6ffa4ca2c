"""BabyAI levels as text, with macro actions (requires the extra `minigrid`)."""
