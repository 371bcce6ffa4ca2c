"""Social deduction: games with hidden roles, talk and votes, and questions about beliefs."""
