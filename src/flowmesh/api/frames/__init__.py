"""The frames wire: one connection carries many requests at once. docs/formats/frame.md says what goes over it."""
