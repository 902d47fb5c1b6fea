"""From runs to exhibits: tables, charts and sentences as plain data, which draw/ renders in every medium."""
