"""TextCraft: crafting with recipes."""
