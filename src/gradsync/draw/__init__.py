"""From exhibits to a medium: the terminal, a page, Markdown, LaTeX, CSV, JSON, pictures."""
