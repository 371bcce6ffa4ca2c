"""Communication: games in which agents have to share private knowledge in words."""
