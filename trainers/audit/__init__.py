"""Audits of runs: exact values by continuations, compared with the credit that was assigned."""
