"""What CI does."""
