"""How plain array code becomes a program: each operation that a traced array meets becomes one definition."""
