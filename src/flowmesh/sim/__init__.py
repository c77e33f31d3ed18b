"""The simulated world: a clock that is told the time, seeded entropy, and a disk that forgets. No rule of the product
lives here."""
