"""Text games of LMRL-Gym and ArCHer, written anew with rules and facts of our own."""
