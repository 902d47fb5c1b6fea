"""Every figure, defined once: its name, unit, formula, how it is written and how uncertain it is."""
