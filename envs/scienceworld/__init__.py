"""ScienceWorld: text-based science experiments (needs the extra `scienceworld`)."""
