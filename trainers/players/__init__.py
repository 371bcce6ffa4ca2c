"""The players of a game in training: its lineup, frozen policies, pools and leagues."""
