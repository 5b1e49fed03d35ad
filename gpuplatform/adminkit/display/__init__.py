"""How single values look: text, age, badges, causes, charts."""
