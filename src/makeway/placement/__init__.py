"""Which nodes a gang gets, and which units make way for it.

As pure as the engine: events go in, decisions come out, the time is an argument. `state.py` is the
door for drivers; `preempt.py` opens with the theory of who has to go.
"""
