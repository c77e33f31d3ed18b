"""The real world: files, clocks and entropy of the operating system, behind `ports`. No rule of the product lives
here."""
