"""Objects become events, and decisions the events that follow. No policy: only the shape changes.

`queues.py` and `workloads.py` speak to the engine, `placement.py` to placement; the last also says
what one of the two has to hear of the other.
"""
