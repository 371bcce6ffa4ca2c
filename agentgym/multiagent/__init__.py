"""Multi-agent games: rules, PettingZoo environments and single-agent environments."""
