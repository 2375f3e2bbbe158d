"""What passes are made of, and what runs them: torch's public names."""
