"""Who may do what: tokens and permissions as pure functions. The facts about tokens live in the catalog."""
