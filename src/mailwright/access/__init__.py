"""Users with passwords and roles, API keys with scopes, sessions, and the lockout after failed sign-ins."""
