"""The routes of members, tokens and the caller's own permissions."""
