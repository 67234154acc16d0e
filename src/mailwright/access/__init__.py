"""Who may enter: people with passwords and roles, programs with keys and scopes, and everyone's wrong guesses."""
