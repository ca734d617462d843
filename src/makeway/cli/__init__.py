"""The `makeway` command: one file per subcommand, and `render`, which makes text of reasons."""
