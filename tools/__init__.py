"""What builds Ferrule, and what makes releases of it."""
