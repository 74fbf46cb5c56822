"""How fast is the server? Measured beside a floor and, where there is one, beside Codex's own server."""
