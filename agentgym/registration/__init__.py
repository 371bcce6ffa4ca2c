"""Environments by id: their table, their registration, and making one from its id.

- `ids`: the table of ids, and `entry`, a row of it.
- `registry`: registration with Gymnasium, and the lookup of an id.
- `making`: `make_env`. `games`: `make_aec`, `make_parallel` and `register_game`.
- `single_seat` and `mixture`: the environments that are made of games and of several environments.
"""
