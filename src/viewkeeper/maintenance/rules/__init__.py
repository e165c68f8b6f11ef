"""Rewrites: an ordered list of named rules that change a bound relation before it becomes operators.

Each rule says the same in a form that costs less, or in the one form that the planner knows.  None moves an expression
past one that can raise: which rows raise is decided by the query as it was written.
"""
