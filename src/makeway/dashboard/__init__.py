"""Pages for people, and the read models that they ask for."""
