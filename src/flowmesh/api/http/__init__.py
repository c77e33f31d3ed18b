"""The HTTP wire: routes, bodies and answers. What an operation does is decided elsewhere; here it is only spoken."""
