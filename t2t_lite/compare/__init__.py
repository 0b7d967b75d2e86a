"""What t2t-lite-compare does: entries, budgets, training runs, speeds, tables and pictures."""
